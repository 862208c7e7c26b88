"""libembed from other languages, in their own toolchains: each gives the program's bits, its errors and its threads."""

import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.languages import go, required
from tests.support.table_sample import TEXTS, write_native_sample

from edgepack.bundles.archive import unpack_bundle
from edgepack.bundles.manifest import digest, open_bundle
from edgepack.bundles.packages import make_packages, packagers_of
from edgepack.errors import UsageError
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.target import ModelOptions, Platform, Target

pytestmark = pytest.mark.tools("c++", may=("gcc", "cc", "python", "go", "cargo", "javac", "java", "node"))

ROOT = Path(__file__).parents[2]
BINDINGS = ROOT / "plugins/edgepack_bindings"
HEADER = ROOT / "src/edgepack/runner/native/csrc/libembed"
PROGRAMS = ROOT / "tests/languages"
NAMES = {"go": {"module": "example.com/acme/embeddings"}, "crate": {"name": "acme-embeddings"}}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return write_native_sample(tmp_path_factory.mktemp("bindings") / "a bundle", library=True)


def target(form: str, **changed: object) -> Target:
    made = Target(
        name="tiny",
        summary="",
        builder="linux",
        platform=Platform(os="linux", arch="x86_64"),
        model=ModelOptions(),
        packages=(form,),
        version="1.2.0",
        options={"library": True},
        extra={form: NAMES[form]},
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def made(form: str, bundle: Bundle, context: HostContext) -> Path:
    (package,) = make_packages(bundle, packagers_of(target(form), context), context=context)
    return package.file


def unpacked(package: Path, folder: Path) -> Path:
    with tarfile.open(package) as archive:
        archive.extractall(folder, filter="data")
    return folder / package.name.removesuffix(".go.tgz").removesuffix(".crate")


def run(*words: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        words, cwd=cwd, env={**os.environ, **environment}, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def expected(bundle: Bundle) -> list[str]:
    """What a language's program says, by the program in C++."""

    def said(*words: str) -> bytes:
        return subprocess.run([bundle.program, *words], capture_output=True, check=True).stdout

    return [
        str(bundle.manifest["model"]["dimension"]),
        said("--out", "raw", "--", *TEXTS).hex(),
        said("--tokens", TEXTS[0]).decode().strip().strip("[]"),
        said("--similarity", *TEXTS[:2]).decode().strip(),
        "true",
        "true 2 --prefix answer: sample has no answer prefix",
        "true 4",
        "0",
        "true",
        "true",
    ]


def in_go(bundle: Bundle, folder: Path, context: HostContext) -> Sequence[str | Path]:
    module = unpacked(made("go", bundle, context), folder)
    app = folder / "app"
    app.mkdir()
    shutil.copy(PROGRAMS / "main.go", app)
    name = NAMES["go"]["module"]
    (app / "go.mod").write_text(
        f"module app\n\ngo 1.23\n\nrequire {name} v1.2.0\n\nreplace {name} => {module}\n"
    )
    alone = {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "1"}
    run(go(), "vet", "./...", cwd=app, **alone)
    run(go(), "build", "-o", "app", ".", cwd=app, **alone)
    return [app / "app"]


def in_rust(bundle: Bundle, folder: Path, context: HostContext) -> Sequence[str | Path]:
    crate = unpacked(made("crate", bundle, context), folder)
    app = folder / "app"
    (app / "src").mkdir(parents=True)
    shutil.copy(PROGRAMS / "main.rs", app / "src")
    (app / "Cargo.toml").write_text(
        '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n\n'
        f'[dependencies]\nacme-embeddings = {{ path = "{crate}" }}\n'
    )
    run(required("cargo"), "build", "--offline", "--quiet", cwd=app, RUSTFLAGS="-D warnings")
    return [app / "target/debug/app"]


def in_java(bundle: Bundle, folder: Path, context: HostContext) -> Sequence[str | Path]:
    sources = [*(BINDINGS / "java").glob("*.java"), PROGRAMS / "Main.java"]
    run(required("javac"), "-Xlint:all", "-Werror", "--release", "17", "-d", folder, *sources, cwd=folder)
    library = shared(BINDINGS / "csrc/jni.c", folder / "libedgepack_jni.so")
    checks = ["-Xcheck:jni", "-Xmx64m", "-Dfile.encoding=UTF-8", "-Dsun.jnu.encoding=UTF-8"]
    return [required("java"), *checks, "-cp", folder, "Main", library]


def in_node(bundle: Bundle, folder: Path, context: HostContext) -> Sequence[str | Path]:
    for file in (BINDINGS / "node/index.mjs", PROGRAMS / "main.mjs"):
        shutil.copy(file, folder)
    shared(BINDINGS / "csrc/addon.c", folder / "edgepack.node")
    return [required("node"), folder / "main.mjs"]


def shared(source: Path, library: Path) -> Path:
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"]
    run(required("gcc"), *flags, f"-I{HEADER}", source, "-o", library, "-ldl", cwd=library.parent)
    return library


@pytest.mark.slow
@pytest.mark.parametrize("language", [in_go, in_rust, in_java, in_node])
def test_a_language_gives_what_the_program_gives(
    language: Callable[..., Sequence[str | Path]], bundle: Bundle, context: HostContext, tmp_path: Path
) -> None:
    command = language(bundle, tmp_path, context)
    said = run(*command, bundle.directory, *TEXTS, cwd=tmp_path, LC_ALL="C.UTF-8").splitlines()
    assert said == expected(bundle)


@pytest.mark.parametrize("form", NAMES)
def test_a_package_holds_the_bundle_and_is_the_same_each_time(
    form: str, bundle: Bundle, context: HostContext, tmp_path: Path
) -> None:
    file = made(form, bundle, context)
    assert file.name == {"go": "embeddings-1.2.0.go.tgz", "crate": "acme-embeddings-1.2.0.crate"}[form]
    first = file.read_bytes()
    assert digest(open_bundle(unpack_bundle(file, tmp_path / "inside"))) == digest(bundle)
    shutil.rmtree(context.work_dir / "packages")
    assert made(form, bundle, context).read_bytes() == first
    shutil.rmtree(context.work_dir / "packages")
    (plain,) = make_packages(bundle, packagers_of(target(form, extra={}), context), context=context)
    assert plain.file.name == {"go": "sample-1.2.0.go.tgz", "crate": "sample-1.2.0.crate"}[form]


@pytest.mark.parametrize("form", NAMES)
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"options": {}}, "requires libembed, which this target does not build"),
        ({"platform": Platform(os="web", arch="wasm32")}, "requires libembed"),
        ({"version": "1.2"}, "'1.2' is not a valid version"),
        ({"extra": {"go": {"module": "a b"}, "crate": {"name": "a b"}}}, "says"),
        ({"extra": {"go": {"other": "a"}, "crate": {"other": "a"}}}, "says"),
    ],
)
def test_what_a_target_may_not_say(
    form: str, changes: dict[str, object], words: str, context: HostContext
) -> None:
    with pytest.raises(UsageError, match=words):
        packagers_of(target(form, **changes), context)


def test_a_bundle_without_the_library_is_refused(bundle: Bundle, context: HostContext) -> None:
    runner = {key: value for key, value in bundle.manifest["runner"].items() if key != "library"}
    without = replace(bundle, manifest={**bundle.manifest, "runner": runner})
    with pytest.raises(UsageError, match=r"no lib/libembed\.so"):
        list(make_packages(without, packagers_of(target("go"), context), context=context))
