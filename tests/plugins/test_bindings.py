"""Packages around libembed, for Go, Rust, Java and Android: they hold the bundle, and what no package is of is refused."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from tests.support.languages import required
from tests.support.table_sample import listed, write_native_sample

from edgepack.bundles.archive import unpack_bundle
from edgepack.bundles.manifest import digest, open_bundle
from edgepack.bundles.packages import make_packages, packagers_of
from edgepack.context import BuildContext
from edgepack.errors import BundleError, MissingToolError, OutputError, UsageError
from edgepack.foundry.toolchains.zig import zig_program
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.target import ModelOptions, Platform, Target
from edgepack.runner.native.sources import source_files
from edgepack_bindings.android import create_aar
from edgepack_bindings.classes import compiled
from edgepack_bindings.commands import join as command
from edgepack_bindings.jar import create_jar
from edgepack_bindings.join import join
from edgepack_bindings.package import create_crate, create_go
from edgepack_engine.static_library import create_packager

pytestmark = pytest.mark.tools("c++", may=("gcc", "cc", "javac"))

BINDINGS = Path(__file__).parents[2] / "plugins/edgepack_bindings"
CALLS = ("open", "dimension", "texts", "tokens", "similarity", "close")
NAMES = {"go": {"module": "example.com/acme/embeddings"}, "crate": {"name": "acme-embeddings"}}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """Its programs end early, for none is run here and each package is as small as zlib makes it."""
    made = write_native_sample(tmp_path_factory.mktemp("bindings") / "a bundle", library=True)
    for name in ("embed", "lib/libembed.so"):
        os.truncate(made.directory / name, 50_000)
    return replace(made, manifest=listed(made.directory))


@pytest.fixture(scope="module")
def java() -> dict[tuple[str, ...], dict[str, bytes | Path]]:
    """Classes by their folders of sources, compiled once: javac takes two seconds of processor time."""
    return {}


@pytest.fixture
def javac(java: dict[tuple[str, ...], dict[str, bytes | Path]], monkeypatch: pytest.MonkeyPatch) -> None:
    required("javac")

    def once(*folders: str, form: str, context: BuildContext) -> dict[str, bytes | Path]:
        if folders not in java:
            # A processor of the current folder, which javac would load, and fail where there is none.
            services = context.work_dir / "META-INF/services"
            services.mkdir(parents=True)
            (services / "javax.annotation.processing.Processor").write_text("Evil\n")
            monkeypatch.chdir(context.work_dir)
            made = compiled(*folders, form=form, context=context)
            java[folders] = {name: file.read_bytes() for name, file in made.items() if isinstance(file, Path)}
        return java[folders]

    for module in ("android", "jar"):
        monkeypatch.setattr(f"edgepack_bindings.{module}.compiled", once)


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
        extra={form: NAMES.get(form, {})},
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def made(form: str, bundle: Bundle, context: HostContext) -> Path:
    (package,) = make_packages(bundle, packagers_of(target(form), context), context=context)
    return package.file


@pytest.mark.parametrize("form", NAMES)
def test_a_package_holds_the_bundle_and_is_the_same_each_time(
    form: str, bundle: Bundle, context: HostContext, tmp_path: Path
) -> None:
    file = made(form, bundle, context)
    assert file.name == {"go": "embeddings@v1.2.0.zip", "crate": "acme-embeddings-1.2.0.crate"}[form]
    first = file.read_bytes()
    assert digest(open_bundle(unpack_bundle(file, tmp_path / "inside"))) == digest(bundle)
    shutil.rmtree(context.work_dir / "packages")
    assert made(form, bundle, context).read_bytes() == first
    shutil.rmtree(context.work_dir / "packages")
    (plain,) = make_packages(bundle, packagers_of(target(form, extra={}), context), context=context)
    assert plain.file.name == {"go": "sample@v1.2.0.zip", "crate": "sample-1.2.0.crate"}[form]


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


@pytest.mark.parametrize("module", ["example.com/acme/embeddings", "example.com/acme/embeddings/v2"])
def test_a_go_module_of_a_later_major_version_has_it_in_its_path(
    module: str, bundle: Bundle, context: HostContext
) -> None:
    asked = target("go", version="2.1.0", extra={"go": {"module": module}})
    (package,) = make_packages(bundle, packagers_of(asked, context), context=context)
    assert package.file.name == "embeddings@v2.1.0.zip"
    with zipfile.ZipFile(package.file) as archive:
        top = "example.com/acme/embeddings/v2@v2.1.0/"
        assert all(name.startswith(top) for name in archive.namelist())
        assert archive.read(top + "go.mod").startswith(b"module example.com/acme/embeddings/v2\n")


def test_a_form_that_is_a_zip_refuses_links(bundle: Bundle, context: HostContext, tmp_path: Path) -> None:
    linked = Path(shutil.copytree(bundle.directory, tmp_path / "linked"))
    (linked / "golden.json").rename(linked / "kept.json")
    (linked / "golden.json").symlink_to("kept.json")
    with pytest.raises(
        UsageError, match=r"package form go holds no symbolic links, this bundle does: golden\.json"
    ):
        create_go(target("go")).pack(
            replace(bundle, directory=linked), tmp_path / "made.zip", context=context
        )


@pytest.mark.usefixtures("javac")
def test_a_jar_has_its_parts_and_is_the_same_each_time(
    bundle: Bundle, context: HostContext, tmp_path: Path
) -> None:
    asked = target("jar", builder="engine", extra={"jar": {"name": "com.acme:embeddings"}})
    (package,) = make_packages(bundle, packagers_of(asked, context), context=context)
    assert package.file.name == "embeddings-1.2.0.jar"
    first = package.file.read_bytes()
    with zipfile.ZipFile(package.file) as archive:
        assert archive.testzip() is None
        assert archive.namelist()[0] == "META-INF/MANIFEST.MF"
        archive.extractall(tmp_path)
    assert "Implementation-Version: 1.2.0\n" in (tmp_path / "META-INF/MANIFEST.MF").read_text()
    assert digest(open_bundle(unpack_bundle(package.file, tmp_path / "inside"))) == digest(bundle)
    held = tmp_path / "META-INF/edgepack/embeddings"
    listed = held.with_suffix(".txt").read_text().splitlines()
    assert sorted(listed) == sorted(
        path.relative_to(held).as_posix() for path in held.rglob("*") if path.is_file()
    )
    library = bundle.directory / "lib/libembed.so"
    assert (tmp_path / "META-INF/native/linux-x86_64/libembed.so").read_bytes() == library.read_bytes()
    assert (tmp_path / "edgepack/Packed.class").read_bytes()[6:8] == b"\x00\x34"
    described = ElementTree.parse(tmp_path / "META-INF/maven/com.acme/embeddings/pom.xml").getroot()
    said = {each.tag.rpartition("}")[2]: each.text for each in described}
    assert (said["groupId"], said["artifactId"], said["version"]) == ("com.acme", "embeddings", "1.2.0")
    shutil.rmtree(context.work_dir / "packages")
    (again,) = make_packages(bundle, packagers_of(asked, context), context=context)
    assert again.file.read_bytes() == first


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"options": {}}, "requires a libembed of the engine's"),
        ({"builder": "linux"}, "requires a libembed of the engine's"),
        ({"platform": Platform(os="windows", arch="x86_64")}, "requires a libembed of the engine's"),
        ({"version": "1.2"}, "'1.2' is not a valid version"),
        ({"extra": {"jar": {"name": "embeddings"}}}, r"\[x-jar\] says"),
        ({"extra": {"jar": {"group": "com.acme"}}}, r"\[x-jar\] says"),
    ],
)
def test_what_no_jar_is_made_of(changes: dict[str, object], words: str) -> None:
    made = replace(target("jar", builder="engine", extra={}), **changes)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=words):
        create_jar(made)


def test_a_crate_says_whatever_its_model_is_called(
    bundle: Bundle, context: HostContext, tmp_path: Path
) -> None:
    name = 'C:\\new "model" = {x}'
    named = replace(bundle, manifest={**bundle.manifest, "model": {**bundle.manifest["model"], "name": name}})
    create_crate(target("crate")).pack(named, tmp_path / "crate", context=context)
    with tarfile.open(tmp_path / "crate") as package:
        said = package.extractfile("acme-embeddings-1.2.0/Cargo.toml")
        assert said is not None
        assert tomllib.loads(said.read().decode())["package"]["description"] == f"Text embeddings by {name}"


def test_a_bundle_without_the_library_is_refused(bundle: Bundle, context: HostContext) -> None:
    runner = {key: value for key, value in bundle.manifest["runner"].items() if key != "library"}
    without = replace(bundle, manifest={**bundle.manifest, "runner": runner})
    with pytest.raises(UsageError, match=r"no lib/libembed\.so"):
        list(make_packages(without, packagers_of(target("go"), context), context=context))


@pytest.mark.slow
@pytest.mark.usefixtures("javac")
def test_an_archive_for_android_has_its_parts_and_is_the_same_each_time(
    bundle: Bundle, context: HostContext, tmp_path: Path
) -> None:
    asked = target("aar", builder="engine", extra={"aar": {"package": "com.acme.embeddings"}})
    (package,) = make_packages(bundle, packagers_of(asked, context), context=context)
    first = package.file.read_bytes()
    with zipfile.ZipFile(package.file) as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path)
    outside = {path.name for path in tmp_path.iterdir()}
    assert outside == {"AndroidManifest.xml", "R.txt", "assets", "classes.jar", "jni", "proguard.txt"}
    assert digest(open_bundle(unpack_bundle(package.file, tmp_path / "inside"))) == digest(bundle)
    described = ElementTree.parse(tmp_path / "AndroidManifest.xml").getroot()
    assert described.attrib == {"package": "com.acme.embeddings"}
    (sdk,) = described
    assert sdk.attrib == {"{http://schemas.android.com/apk/res/android}minSdkVersion": "26"}
    assert (tmp_path / "jni/x86_64/libembed.so").read_bytes() == (
        bundle.directory / "lib/libembed.so"
    ).read_bytes()
    assert [path.name for path in (tmp_path / "jni").rglob("*.so")] == ["libembed.so"]
    with zipfile.ZipFile(tmp_path / "classes.jar") as classes:
        code = {name: classes.read(name) for name in classes.namelist()}
    assert {"edgepack/Bundle.class", "edgepack/Bundle$Options.class", "edgepack/EmbedException.class"} <= set(
        code
    )
    # Of Java 8, and named in the rules for those that shrink apps.
    assert {(each[:4], each[6:8]) for each in code.values()} == {(b"\xca\xfe\xba\xbe", b"\x00\x34")}
    assert "class edgepack.Bundle { native <methods>; }" in (tmp_path / "proguard.txt").read_text()
    shutil.rmtree(context.work_dir / "packages")
    (again,) = make_packages(bundle, packagers_of(asked, context), context=context)
    assert again.file.read_bytes() == first


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"options": {}}, "requires a libembed that needs no C library"),
        ({"builder": "linux"}, "requires a libembed that needs no C library"),
        ({"platform": Platform(os="linux", arch="x86_64", libc="musl")}, "requires a libembed"),
        ({"platform": Platform(os="linux", arch="riscv64")}, "requires a libembed"),
        ({"extra": {"aar": {"package": "Embeddings"}}}, r"\[x-aar\] says"),
        ({"extra": {"aar": {"name": "a.b"}}}, r"\[x-aar\] says"),
    ],
)
def test_what_no_archive_for_android_is_made_of(changes: dict[str, object], words: str) -> None:
    made = replace(target("go", builder="engine", extra={}), **changes)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=words):
        create_aar(made)


def test_without_javac_a_package_says_what_it_needs(
    bundle: Bundle, context: HostContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for form, create in (("aar", create_aar), ("jar", create_jar)):
        with pytest.raises(MissingToolError, match=f"form {form} requires javac"):
            create(target(form, builder="engine", extra={})).pack(bundle, tmp_path / "made", context=context)


def test_what_no_static_library_is_made_of() -> None:
    for changes in (
        {"builder": "linux"},
        {"platform": Platform(os="linux", arch="riscv64")},
        {"platform": Platform(os="windows", arch="x86_64")},
    ):
        with pytest.raises(UsageError, match="static-library requires the engine"):
            create_packager(replace(target("static-library", builder="engine"), **changes))


def test_the_functions_that_csharp_names_are_those_of_the_header() -> None:
    source = (BINDINGS / "csharp/Bundle.cs").read_text(encoding="utf-8")
    header = source_files("libembed/embed.h")["libembed/embed.h"]
    declared = dict(re.findall(r"EMBED_API [\w ]+?[ *](embed_\w+)\(([^)]*)\)", header))
    named = dict(re.findall(r'Named<(\w+)>\("(embed_\w+)"\)', source))
    assert set(named.values()) == {f"embed_{name}" for name in CALLS}
    for kind, name in named.items():
        (parameters,) = re.findall(rf"delegate \w+ {kind}\((.*)\);", source)
        assert parameters.replace("[In, Out]", "").count(",") == declared[name].count(","), name


def test_clang_imports_the_module_by_which_swift_reads_the_header(tmp_path: Path) -> None:
    """As Swift does it; Swift itself is not run."""
    shutil.copy(BINDINGS / "swift/module.modulemap", tmp_path)
    (tmp_path / "embed.h").write_text(source_files("libembed/embed.h")["libembed/embed.h"])
    asked = "".join(f"    (void)&embed_{name};\n" for name in CALLS)
    program = f"#pragma clang module import Libembed\nvoid asked(embed_bundle *bundle) {{\n{asked}    embed_close(bundle);\n}}\n"
    (tmp_path / "main.c").write_text(program)
    words = ["-fmodules", "-fmodules-cache-path=cache", "-fmodule-map-file=module.modulemap", "-Werror"]
    done = subprocess.run(
        [zig_program(), "cc", *words, "-c", "main.c", "-o", "main.o"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # The linker is told of the library by the module.
    assert b"lib\0embed\0" in (tmp_path / "main.o").read_bytes()


ARM = {"os": "linux", "arch": "aarch64", "glibc": "2.28"}


def for_arm(bundle: Bundle, folder: Path, change: str = "", *, arch: int = 0xB7, **facts: object) -> Bundle:
    """The same model for another processor: another library, and a manifest that says so; with a ``change`` or ``facts`` another model."""
    shutil.copytree(bundle.directory, folder)
    (folder / "lib/libembed.so").write_bytes(b"\x7fELF for others...."[:18] + arch.to_bytes(2, "little"))
    if change:
        next((folder / "model").iterdir()).write_text(change)
    said = json.loads((folder / "manifest.json").read_text())
    said["target"]["platform"] = {**said["target"]["platform"], **ARM}
    said["model"] |= facts
    for each in said["files"]:
        content = (folder / each["path"]).read_bytes()
        each |= {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    (folder / "manifest.json").write_text(json.dumps(said))
    return open_bundle(folder)


def packed_as(form: str, bundle: Bundle, folder: Path, context: HostContext) -> Path:
    folder.mkdir()
    asked = target(form, builder="engine", extra={})
    packager = create_aar(asked) if form == "aar" else create_jar(asked)
    file = folder / packager.file_name(bundle)
    packager.pack(bundle, file, context=context)
    return file


@pytest.mark.usefixtures("javac")
@pytest.mark.parametrize(
    ("form", "folder", "names"),
    [
        ("aar", "jni", ["x86_64", "arm64-v8a"]),
        ("jar", "META-INF/native", ["linux-x86_64", "linux-aarch64"]),
    ],
)
def test_archives_of_two_processors_are_joined(
    form: str, folder: str, names: list[str], bundle: Bundle, context: HostContext, tmp_path: Path
) -> None:
    first = packed_as(form, bundle, tmp_path / "first", context)
    other = for_arm(bundle, tmp_path / "arm")
    second = packed_as(form, other, tmp_path / "second", context)
    joined = tmp_path / f"joined.{form}"
    done = CliRunner().invoke(command, [str(first), str(second), "-o", str(joined), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {
        "file": str(joined),
        "bytes": joined.stat().st_size,
        "platforms": names,
    }
    with zipfile.ZipFile(joined) as archive, zipfile.ZipFile(first) as before:
        assert archive.testzip() is None
        added = f"{folder}/{names[1]}/libembed.so"
        assert [name for name in archive.namelist() if name != added] == before.namelist()
        assert all(archive.read(name) == before.read(name) for name in before.namelist())
        assert archive.read(added) == (other.directory / "lib/libembed.so").read_bytes()
    assert digest(open_bundle(unpack_bundle(joined, tmp_path / "inside"))) == digest(bundle)
    once = joined.read_bytes()
    join([first, second], joined, context=context)
    assert joined.read_bytes() == once


@pytest.mark.usefixtures("javac")
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_what_cannot_be_joined(bundle: Bundle, context: HostContext, tmp_path: Path) -> None:
    aar = packed_as("aar", bundle, tmp_path / "aar", context)
    jar = packed_as("jar", for_arm(bundle, tmp_path / "arm"), tmp_path / "jar", context)
    other = packed_as("aar", for_arm(bundle, tmp_path / "other", "x"), tmp_path / "of other", context)
    longer = packed_as("aar", for_arm(bundle, tmp_path / "7", max_length=7), tmp_path / "of 7", context)
    crate = made("crate", bundle, context)
    for files, words in (
        ((aar, longer), "holds another model than"),
        ((aar, aar), "is for x86_64, as one before it is"),
        ((aar, jar), "archives of different forms"),
        ((aar, other), "holds another model than"),
        ((aar, crate), "has no library of its bundle beside it"),
        ((jar, planted(jar, "META-INF/native/linux-x86_64/libembed.so")), "or others besides"),
        ((planted(aar, "jni/\x1b[31m/libembed.so"),), "or others besides"),
        ((planted(aar, "jni/x86_64/libembed.so"),), "or others besides"),
    ):
        with pytest.raises(UsageError, match=words):
            join(files, tmp_path / "joined", context=context)
        assert not (tmp_path / "joined").exists()
    with pytest.raises(BundleError, match="not a bundle's archive"):
        join([Path(__file__)], tmp_path / "joined", context=context)
    with pytest.raises(UsageError, match=r"there is no file nothing\.jar"):
        join([Path("nothing.jar")], tmp_path / "joined", context=context)
    false = for_arm(bundle, tmp_path / "false", arch=0x3E)
    for file, words in (
        (
            packed_as("aar", false, tmp_path / "x86", context),
            "has a library for x86_64, and its manifest says aarch64",
        ),
        (planted(aar, "jni/../libembed.so"), "a path that leads out of it"),
        (planted(aar, "R.txt"), "holds 'R.txt' twice"),
        (planted(aar, "a.bin", bytes(300 << 20)), "unpacks to far more than its size lets expect"),
        (damaged_in_proguard(aar), "is damaged: "),
    ):
        with pytest.raises(BundleError, match=words):
            join([file], tmp_path / "joined", context=context)
        assert not (tmp_path / "joined").exists()
    done = CliRunner().invoke(command, [str(aar), "-o", str(crate)])
    assert isinstance(done.exception, OutputError)


def planted(file: Path, name: str, content: bytes = b"\x7fELF of a stranger") -> Path:
    """A copy of an archive with a member more."""
    made = Path(shutil.copy(file, file.with_name(f"{len(list(file.parent.iterdir()))}-{file.name}")))
    with zipfile.ZipFile(made, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return made


def damaged_in_proguard(file: Path) -> Path:
    with zipfile.ZipFile(file) as archive:
        at = archive.getinfo("proguard.txt").header_offset + 60
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    made = file.with_name("damaged.aar")
    made.write_bytes(content)
    return made
