"""A bundle inside other people's programs: as one file, and by libembed from each language, in its own toolchain."""

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.support.bare_root import CHROOT
from tests.support.bundles import bundle_in, made_bundle, unpack_tarball
from tests.support.command import edgepack
from tests.support.dotnet import compiled_csharp
from tests.support.languages import bring_javac, go, newest_java, required, rust_1_63
from tests.support.once import made_once
from tests.support.small_models import write_small_bert

from edgepack.files.elf_reader import opened_elf
from edgepack.records.bundle import Bundle
from edgepack_web.npm.node import find_node

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[2]
BINDINGS = ROOT / "plugins/edgepack_bindings"
PROGRAMS = ROOT / "tests/languages"
TEXTS = ["A man is eating food.", "Someone is having a meal.", "", "Grüße \N{CAT FACE} " * 40]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A small model's for the engine, with libembed; the packages are beside its folder."""

    bring_javac()
    compiled = ("aar", "jar") if shutil.which("javac") else ()

    def make(folder: Path) -> None:
        model = folder / "small-bert"
        model.mkdir()
        forms = [
            word
            for form in ("single", "go", "crate", "static-library", "npm", *compiled)
            for word in ("--as", form)
        ]
        wishes = ["--set", "library=true", "--set", "package.version=1.2.0"]
        made_bundle(
            "linux-x86-fast", folder / "made", "--model", str(write_small_bert(model)), *wishes, *forms
        )

    folder = made_once(tmp_path_factory, "apps", make) / "made"
    return bundle_in(next(each for each in folder.iterdir() if each.is_dir()))


def beside(bundle: Bundle, pattern: str) -> Path:
    (found,) = bundle.directory.parent.glob(pattern)
    return found


def said(*command: str | Path) -> bytes:
    done = subprocess.run(command, capture_output=True, check=False, env={})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_file_has_the_bits_of_the_folder(packed: Bundle, tmp_path: Path) -> None:
    file = Path(shutil.copy(beside(packed, "*.embed"), tmp_path / "embed"))
    assert os.access(file, os.X_OK)
    words = ("--out", "raw", "--", *TEXTS)
    assert said(file, *words) == said(packed.program, *words)
    assert b"the same bits as where it was made" in said(file, "--self-test")


def test_one_file_is_verified_as_any_package(packed: Bundle) -> None:
    model = packed.directory.parents[1] / "small-bert"
    done = edgepack("verify", "--run", "--offline", "--model", str(model), str(beside(packed, "*.embed")))
    assert done.returncode == 0, done.stderr
    assert "verified" in done.stdout


def test_with_musl_it_runs_in_a_root_that_holds_nothing_else(packed: Bundle, tmp_path: Path) -> None:
    target = tmp_path / "musl.toml"
    text = (ROOT / "targets/linux-x86-fast.toml").read_text(encoding="utf-8")
    target.write_text(text.replace('glibc = "2.28"', 'libc = "musl"'), encoding="utf-8")
    model = packed.directory.parents[1] / "small-bert"
    made = made_bundle(str(target), tmp_path / "made", "--model", str(model), "--as", "single")
    root = tmp_path / "root"
    root.mkdir()
    shutil.copy(beside(made, "*.embed"), root / "embed")
    words = ("--out", "raw", "--", *TEXTS)
    inside: list[str | Path] = [Path("/usr/bin/unshare"), "--map-root-user"] if os.geteuid() else []
    made_there = said(*inside, Path(CHROOT), str(root), "/embed", *words)
    assert made_there == said(packed.program, *words)
    assert [path.name for path in root.iterdir()] == ["embed"]


def run(*words: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        words, cwd=cwd, env={**os.environ, **environment}, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def expected(bundle: Bundle) -> list[str]:
    """What a language's program says, by the program in C++."""

    program = bundle.program
    return [
        str(bundle.manifest["model"]["dimension"]),
        said(program, "--out", "raw", "--", *TEXTS).hex(),
        said(program, "--tokens", TEXTS[0]).decode().strip().strip("[]"),
        said(program, "--similarity", *TEXTS[:2]).decode().strip(),
        "true",
        f"true 2 --prefix answer: {bundle.manifest['model']['name']} has no answer prefix",
        "true 4",
        # An empty key is one that this bundle is not signed with; then an empty folder.
        "true 4",
        "true 2",
        "0",
        "true",
        "true",
    ]


def in_go(bundle: Bundle, folder: Path) -> Sequence[str | Path]:
    """By Go's own command, of a proxy that has the module."""
    module = beside(bundle, "*@v1.2.0.zip")
    name = "edgepack.local/small-bert"
    proxy = folder / "proxy" / name / "@v"
    proxy.mkdir(parents=True)
    shutil.copy(module, proxy / "v1.2.0.zip")
    with zipfile.ZipFile(module) as archive:
        (proxy / "v1.2.0.mod").write_bytes(archive.read(f"{name}@v1.2.0/go.mod"))
    (proxy / "v1.2.0.info").write_text(json.dumps({"Version": "v1.2.0"}))
    (proxy / "list").write_text("v1.2.0\n")
    app = folder / "app"
    app.mkdir()
    shutil.copy(PROGRAMS / "main.go", app)
    (app / "go.mod").write_text("module app\n\ngo 1.23\n")
    alone = {
        "GOFLAGS": "-mod=mod -modcacherw",
        "GOPROXY": f"file://{folder}/proxy",
        "GONOSUMDB": "edgepack.local",
        "GOMODCACHE": f"{folder}/modules",
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "1",
    }
    run(go(), "get", f"{name}@v1.2.0", cwd=app, **alone)
    run(go(), "vet", "./...", cwd=app, **alone)
    run(go(), "build", "-o", "app", ".", cwd=app, **alone)
    # Go keeps no file executable, and the bundle opens out of its cache, too.
    kept = run(go(), "list", "-m", "-f", "{{.Dir}}", name, cwd=app, **alone).strip()
    assert run(app / "app", f"{kept}/bundle", *TEXTS, cwd=app).splitlines() == expected(bundle)
    return [app / "app"]


def in_rust(bundle: Bundle, folder: Path, **environment: str) -> Sequence[str | Path]:
    """By cargo, of a registry that has the crate."""
    crate = beside(bundle, "*.crate")
    listed = folder / "registry/index/sm/al/small-bert"
    listed.parent.mkdir(parents=True)
    shutil.copy(crate, folder / "registry")
    about = {"name": "small-bert", "vers": "1.2.0", "deps": [], "features": {}, "yanked": False}
    listed.write_text(json.dumps({**about, "cksum": hashlib.sha256(crate.read_bytes()).hexdigest()}))
    app = folder / "app"
    (app / "src").mkdir(parents=True)
    shutil.copy(PROGRAMS / "main.rs", app / "src")
    (app / "Cargo.toml").write_text(
        '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\nsmall-bert = "1.2"\n'
    )
    (app / ".cargo").mkdir()
    (app / ".cargo/config.toml").write_text(
        '[source.crates-io]\nreplace-with = "local"\n\n[source.local]\nlocal-registry = "../registry"\n'
    )
    alone = {"CARGO_HOME": f"{folder}/cargo", "RUSTFLAGS": "-D warnings", **environment}
    run("cargo", "build", "--offline", "--quiet", cwd=app, **alone)
    return [app / "target/debug/app"]


def in_rust_of_today(bundle: Bundle, folder: Path) -> Sequence[str | Path]:
    required("cargo")
    return in_rust(bundle, folder)


def in_rust_1_63(bundle: Bundle, folder: Path) -> Sequence[str | Path]:
    return in_rust(bundle, folder, **rust_1_63())


JAVAC = ("-Xlint:all", "-Werror", "--release", "17")
CHECKS = ("-Xcheck:jni", "-Xmx64m", "-Dfile.encoding=UTF-8", "-Dsun.jnu.encoding=UTF-8")


def in_java(bundle: Bundle, folder: Path) -> Sequence[str | Path]:
    """By the library of the bundle alone."""
    sources = [*(BINDINGS / "java").glob("*.java"), PROGRAMS / "Main.java"]
    run(required("javac"), *JAVAC, "-d", folder, *sources, cwd=folder)
    return [required("java"), *CHECKS, "-cp", folder, "Main", bundle.directory / "lib/libembed.so"]


def in_java_by_a_library_of_its_own(bundle: Bundle, folder: Path) -> Sequence[str | Path]:
    command = in_java(bundle, folder)
    return [*command[:-1], shared(BINDINGS / "csrc/jni.c", folder / "libedgepack_jni.so", bundle)]


def in_android(bundle: Bundle, folder: Path) -> Sequence[str | Path]:
    """Classes and library of the archive for apps, on Linux."""
    javac = required("javac")
    with zipfile.ZipFile(beside(bundle, "*.aar")) as archive:
        archive.extractall(folder)
    classes, (library,) = folder / "classes.jar", (folder / "jni").rglob("*.so")
    run(javac, *JAVAC, "-cp", classes, "-d", folder, PROGRAMS / "Main.java", cwd=folder)
    # As an app has it, whose copies are not executable.
    (asset,) = (folder / "assets").iterdir()
    assert not os.access(asset / "embed", os.X_OK)
    # Segments lie so that pages of 16 kB can map them.
    with opened_elf(library) as file:
        assert {segment.align for segment in file.loads} == {16384}
    command: list[str | Path] = [required("java"), *CHECKS, "-cp", f"{folder}:{classes}", "Main", library]
    assert run(*command, asset, *TEXTS, cwd=folder, LC_ALL="C.UTF-8").splitlines() == expected(bundle)
    return command


def in_jar(bundle: Bundle, folder: Path) -> Sequence[str | Path]:
    """Classes and library of the jar."""
    javac = required("javac")
    jar = beside(bundle, "*.jar")
    run(javac, *JAVAC, "-cp", jar, "-d", folder, PROGRAMS / "Main.java", cwd=folder)
    with zipfile.ZipFile(jar) as archive:
        library = archive.extract("META-INF/native/linux-x86_64/libembed.so", folder)
    return [required("java"), *CHECKS, "-cp", f"{folder}:{jar}", "Main", library]


def in_csharp(bundle: Bundle, folder: Path) -> Sequence[str | Path]:
    return compiled_csharp(folder, BINDINGS / "csharp/Bundle.cs", PROGRAMS / "Main.cs")


def in_node(bundle: Bundle, folder: Path) -> Sequence[str | Path]:
    for file in (BINDINGS / "node/index.mjs", PROGRAMS / "main.mjs"):
        shutil.copy(file, folder)
    shared(BINDINGS / "csrc/addon.c", folder / "edgepack.node", bundle)
    return [find_node(), folder / "main.mjs"]


def shared(source: Path, library: Path, bundle: Bundle) -> Path:
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"]
    run(
        required("gcc"),
        *flags,
        f"-I{bundle.directory}/include",
        source,
        "-o",
        library,
        "-ldl",
        cwd=library.parent,
    )
    return library


def in_npm(bundle: Bundle, folder: Path) -> Sequence[str | Path]:
    """By the native package, with its own bundle."""
    with tarfile.open(beside(bundle, "*-linux-x64.tgz")) as archive:
        archive.extractall(folder, filter="data")
    module = folder / "node_modules/small-bert"
    module.parent.mkdir()
    (folder / "package").rename(module)
    text = (PROGRAMS / "main.mjs").read_text(encoding="utf-8").replace("./index.mjs", "small-bert")
    (folder / "main.mjs").write_text(text, encoding="utf-8")
    own = 'import { Bundle } from "small-bert";\nconst bundle = Bundle.open();\nconsole.log(bundle.dimension);\nawait bundle.close();\n'
    (folder / "own.mjs").write_text(own, encoding="utf-8")
    said_of_it = run(find_node(), folder / "own.mjs", cwd=folder)
    assert said_of_it == f"{bundle.manifest['model']['dimension']}\n"
    return [find_node(), folder / "main.mjs"]


@pytest.mark.parametrize(
    "language",
    [
        in_go,
        in_rust_of_today,
        in_rust_1_63,
        in_java,
        in_java_by_a_library_of_its_own,
        in_jar,
        in_android,
        in_csharp,
        in_node,
        in_npm,
    ],
)
def test_a_language_gives_the_programs_bits_errors_and_threads(
    language: Callable[[Bundle, Path], Sequence[str | Path]], packed: Bundle, tmp_path: Path
) -> None:
    command = language(packed, tmp_path)
    done = run(*command, packed.directory, *TEXTS, cwd=tmp_path, LC_ALL="C.UTF-8")
    assert done.splitlines() == expected(packed)


@pytest.mark.parametrize("java", ["of this machine", "of today"])
def test_a_jar_alone_gives_the_programs_bits(java: str, packed: Bundle, tmp_path: Path) -> None:
    javac, jar = required("javac"), beside(packed, "*.jar")
    run(javac, *JAVAC, "-cp", jar, "-d", tmp_path, PROGRAMS / "OfJar.java", cwd=tmp_path)
    mine = java == "of this machine"
    program = Path(required("java")) if mine else newest_java()
    newer = () if mine else ("--enable-native-access=ALL-UNNAMED",)
    cache = tmp_path / "cache"
    command: list[str | Path] = [
        program,
        *CHECKS,
        *newer,
        f"-Dedgepack.cache={cache}",
        "-cp",
        f"{tmp_path}:{jar}",
        "OfJar",
    ]
    vectors = said(packed.program, "--out", "raw", "--", *TEXTS).hex()

    def answers(*wanted: str) -> None:
        done = run(*command, "small-bert", *TEXTS, cwd=tmp_path, LC_ALL="C.UTF-8")
        assert done.splitlines() == [vectors, *wanted]

    answers("true", "no jar of the class path holds a bundle other")
    (kept,) = cache.iterdir()
    assert {each.name for each in kept.iterdir()} == {"bundle", "libembed.so"}
    made = (kept / "bundle/manifest.json").stat().st_mtime_ns
    answers("true", "no jar of the class path holds a bundle other")
    assert (kept / "bundle/manifest.json").stat().st_mtime_ns == made
    # What was damaged since is copied again.
    for name in ("bundle/model/model.plan", "bundle/manifest.json", "libembed.so"):
        (kept / name).write_bytes(b"damaged")
        answers("true", "no jar of the class path holds a bundle other")
        assert list(cache.iterdir()) == [kept]
    # Several processes at once, before there is anything and where it is damaged.
    for damaged in (False, True):
        if damaged:
            (kept / "bundle/model/model.plan").write_bytes(b"damaged")
        else:
            shutil.rmtree(cache)
        together = [
            subprocess.Popen([*command, "small-bert", *TEXTS], stdout=subprocess.PIPE) for _ in range(4)
        ]
        assert all(each.communicate()[0].decode().startswith(vectors) for each in together)
        assert list(cache.iterdir()) == [kept]


def linked_in_c(folder: Path, library: Path, *flags: str) -> Path:
    usual = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{library}/include")
    program = folder / "app"
    run(
        required("gcc"),
        *usual,
        *flags,
        PROGRAMS / "linked.c",
        library / "lib/libembed.a",
        "-o",
        program,
        cwd=folder,
    )
    return program


def linked_in_c_with_its_c_library(folder: Path, library: Path) -> Path:
    return linked_in_c(folder, library, "-static")


def linked_in_rust(folder: Path, library: Path, **environment: str) -> Path:
    words = ("--edition", "2021", "-D", "warnings", "-L", f"native={library}/lib")
    run("rustc", *words, PROGRAMS / "linked.rs", "-o", folder / "app", cwd=folder, **environment)
    return folder / "app"


def linked_in_rust_of_today(folder: Path, library: Path) -> Path:
    required("rustc")
    return linked_in_rust(folder, library)


def linked_in_rust_1_63(folder: Path, library: Path) -> Path:
    return linked_in_rust(folder, library, **rust_1_63())


def linked_in_go(folder: Path, library: Path) -> Path:
    shutil.copy(PROGRAMS / "linked.go", folder / "main.go")
    (folder / "go.mod").write_text("module app\n\ngo 1.23\n")
    alone = {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "1"}
    flags = {"CGO_CFLAGS": f"-I{library}/include", "CGO_LDFLAGS": f"-L{library}/lib"}
    run(go(), "build", "-o", "app", ".", cwd=folder, **alone, **flags)
    return folder / "app"


@pytest.mark.parametrize(
    "linked",
    [
        linked_in_c,
        linked_in_c_with_its_c_library,
        linked_in_rust_of_today,
        linked_in_rust_1_63,
        linked_in_go,
    ],
)
def test_a_program_with_the_bundle_inside_has_the_programs_bits(
    linked: Callable[[Path, Path], Path], packed: Bundle, tmp_path: Path
) -> None:
    unpack_tarball(beside(packed, "*-static.tar.zst"), tmp_path)
    (library,) = tmp_path.iterdir()
    program = linked(tmp_path, library)
    # In C, the bundle's folder is opened, too.
    folder = [packed.directory] if linked.__name__.startswith("linked_in_c") else []
    assert said(program, *folder, *TEXTS) == said(packed.program, "--out", "raw", "--", *TEXTS)
