"""A model in an app of Android: archives of two processors joined; the example, made an app by Android's own tools, its code on Linux' JVM.

Nothing here is run on a phone.
"""

import os
import platform
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.any_libc import compiled, nothing_asked
from tests.support.bundles import bundle_in, made_bundle
from tests.support.command import edgepack
from tests.support.debian_packages import unpacked
from tests.support.languages import bring_javac, required
from tests.support.once import made_once
from tests.support.small_models import write_small_bert

from edgepack.files.elf_reader import opened_elf
from edgepack.foundry.proof.emulator import find_emulator
from edgepack.foundry.toolchains.choose import choose
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.target import Platform

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
]

TESTS = Path(__file__).parents[1]
APP = TESTS.parent / "docs/howto/android-app/src/main"
TARGETS = ("linux-x86-fast", "linux-arm64-fast")
ABIS = {"x86_64": "x86_64", "aarch64": "arm64-v8a"}
TEXTS = ["A man is eating food.", "Someone is having a meal.", "", "Grüße \N{CAT FACE} " * 40]
TOOLS = (
    "aapt android-libaapt android-libandroidfw android-libbase android-liblog android-libutils android-libziparchive android-libbacktrace "
    "android-libunwind android-libcutils libpng16-16 libprotobuf-lite32 p7zip-full zipalign libzopfli1 apksigner libapksig-java "
    "android-framework-res"
)
CODE = ("dalvik-exchange", "libandroid-23-java")
"""Android's compiler and its classes, which Debian 12 has no more."""
LINT = ("-Xlint:all,-options", "-Werror", "--release", "8")
NAME = "my-model-linux-arm64-fast"
"""What the example calls its asset."""
PAGE = 16384


@dataclass(frozen=True, kw_only=True)
class Made:
    bundles: Sequence[Bundle]
    joined: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A small model's bundles for both processors, and what their archives are joined to."""
    bring_javac()
    required("javac")

    def make(folder: Path) -> None:
        (folder / "small-bert").mkdir()
        words = ["--model", str(write_small_bert(folder / "small-bert")), "--set", "library=true"]
        words += ["--as", "aar", "--as", "wheel", "--set", "x-wheel.android=24"]
        for target in TARGETS:
            made_bundle(target, folder / "made", *words)
        archives = (str(folder / f"made/small-bert-{target}.aar") for target in TARGETS)
        done = edgepack("join", *archives, "-o", str(folder / "joined.aar"))
        assert done.returncode == 0, done.stderr
        assert "bytes, for x86_64, arm64-v8a" in done.stdout

    folder = made_once(tmp_path_factory, "android", make)
    bundles = [bundle_in(folder / f"made/small-bert-{target}") for target in TARGETS]
    return Made(bundles=bundles, joined=folder / "joined.aar")


def said(*command: str | Path, environment: Mapping[str, str] | None = None) -> bytes:
    done = subprocess.run(command, capture_output=True, check=False, env=environment)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def contents(folder: Path) -> dict[str, bytes]:
    """Files by their content alone: no app's copies are executable."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def vectors(bundle: Bundle) -> bytes:
    return said(bundle.program, "--out", "raw", "--", *TEXTS)


def test_each_library_of_joined_archives_opens_the_bundle_with_the_same_bits(
    made: Made, shared_context: HostContext, tmp_path: Path
) -> None:
    with zipfile.ZipFile(made.joined) as archive:
        archive.extractall(tmp_path)
    (asset,) = (tmp_path / "assets").iterdir()
    assert contents(asset) == contents(made.bundles[0].directory)
    for arch, abi in ABIS.items():
        library = tmp_path / "jni" / abi / "libembed.so"
        nothing_asked(library)
        with opened_elf(library) as file:
            assert {segment.align for segment in file.loads} == {PAGE}
        toolchain = choose(Platform(os="linux", arch=arch, glibc="2.28"), context=shared_context)
        flags = (f"-I{asset}/include", f"-I{TESTS}/support")
        source, program = TESTS / "languages/main.c", tmp_path / f"main-{arch}"
        main = compiled(toolchain, source, program, flags=flags, context=shared_context)
        here = arch == platform.machine()
        before = () if here else find_emulator(arch, context=shared_context).command("max")
        assert said(*before, main, library, asset, "any", *TEXTS) == vectors(made.bundles[0]), arch


def test_androids_tools_make_sign_and_verify_an_app_whose_code_runs(made: Made, tmp_path: Path) -> None:
    """For Debian's older classes of Android: code, manifest, assets and libraries, at multiples of a page of 16 kB."""
    debian = unpacked("bookworm", *TOOLS.split())
    places = ("lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu/android", "lib", "lib/p7zip")
    loaded = {**os.environ, "LD_LIBRARY_PATH": ":".join(f"{debian}/usr/{place}" for place in places)}

    def tool(name: str, *words: str | Path) -> str:
        return said(debian / "usr/bin" / name, *words, environment=loaded).decode()

    def apksigner(*words: str | Path) -> str:
        jars = ":".join(f"{debian}/usr/share/java/{name}.jar" for name in ("apksigner", "apksig"))
        return said(required("java"), "-cp", jars, "com.android.apksigner.ApkSignerTool", *words).decode()

    aar = tmp_path / "aar"
    extracted(made.joined, aar)
    (tmp_path / "apk").mkdir()
    shutil.move(aar / "jni", tmp_path / "apk/lib")
    dalvik(aar / "classes.jar", tmp_path / "apk/classes.dex", tmp_path)
    manifest = tmp_path / "AndroidManifest.xml"
    # What Gradle writes there of build.gradle.kts.
    named = '<manifest package="com.example.embed" android:versionCode="1"'
    manifest.write_text((APP / "AndroidManifest.xml").read_text().replace("<manifest", named, 1))
    system = debian / "usr/share/android-framework-res/framework-res.apk"
    plain, aligned, signed = (tmp_path / f"{name}.apk" for name in ("plain", "aligned", "signed"))
    versions = ("--min-sdk-version", "26", "--target-sdk-version", "29")
    tool("aapt", "package", "-M", manifest, "-I", system, "-A", aar / "assets", "-0", "so", *versions, "-F", plain, tmp_path / "apk")  # fmt: skip
    tool("zipalign", str(PAGE), plain, aligned)
    key = ("key.p12", "pass:of-a-test")
    words = (
        "-keyalg",
        "EC",
        "-alias",
        "test",
        "-dname",
        "CN=test",
        "-storepass",
        key[1].removeprefix("pass:"),
    )
    said(required("keytool"), "-genkeypair", "-keystore", tmp_path / key[0], *words)
    apksigner("sign", "--ks", tmp_path / key[0], "--ks-pass", key[1], "--out", signed, aligned)
    assert "Verified using v3 scheme (APK Signature Scheme v3): true" in apksigner("verify", "-v", signed)
    tool("zipalign", "-c", str(PAGE), signed)
    about = tool("aapt", "dump", "badging", signed)
    assert "native-code: 'arm64-v8a' 'x86_64'" in about
    assert "sdkVersion:'26'" in about
    assert "launchable-activity: name='com.example.embed.MainActivity'" in about
    # Nothing of the bundle is left out by rules for names of assets.
    installed = tmp_path / "installed"
    extracted(signed, installed)
    with zipfile.ZipFile(signed) as package:
        stored = {each.filename for each in package.infolist() if each.compress_type == zipfile.ZIP_STORED}
    assert {f"lib/{abi}/libembed.so" for abi in ABIS.values()} <= stored
    assert contents(installed / "assets" / NAME) == contents(made.bundles[0].directory)
    # A changed byte is noticed.
    content = bytearray(signed.read_bytes())
    content[content.index(b"\x7fELF") + 5000] ^= 1
    (tmp_path / "changed.apk").write_bytes(content)
    with pytest.raises(AssertionError, match="DOES NOT VERIFY"):
        apksigner("verify", tmp_path / "changed.apk")
    # The app's code as it is in the package, translated for Java, with its library and assets.
    enjarify = unpacked("bookworm", "enjarify") / "usr/lib/python3/dist-packages"
    code = tmp_path / "code.jar"
    translate: list[str | Path] = [
        sys.executable,
        "-m",
        "enjarify.main",
        installed / "classes.dex",
        "-o",
        code,
    ]
    assert b"0 classes had errors" in said(*translate, environment={"PYTHONPATH": str(enjarify)})
    shows_the_similarity(made, code, tmp_path / "run", installed / "assets", installed / "lib/x86_64")


def dalvik(archive: Path, output: Path, folder: Path) -> None:
    """Code of the example and of its archive, compiled for Android by Android's classes."""
    debian = unpacked("bullseye", *CODE) / "usr/share/java"
    classes = f"{archive}:{debian}/com.android.android-23.jar"
    made = folder / "compiled"
    said(required("javac"), *LINT, "-cp", classes, "-d", made, *APP.rglob("*.java"))
    words = ("--dex", "--min-sdk-version=26", f"--output={output}", archive, made)
    said(required("java"), "-cp", debian / "com.android.dx.jar", "com.android.dx.command.Main", *words)


def extracted(archive: Path, folder: Path) -> None:
    """The bundle's folder of the assets is called as in the example."""
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)
    (asset,) = (folder / "assets").iterdir()
    asset.rename(folder / "assets" / NAME)


def test_the_examples_code_opens_the_bundle_of_its_assets(made: Made, tmp_path: Path) -> None:
    aar = tmp_path / "aar"
    extracted(made.joined, aar)
    said(required("javac"), *LINT, "-cp", f"{aar / 'classes.jar'}:{stand_ins(tmp_path)}", "-d", tmp_path / "app", *APP.rglob("*.java"))  # fmt: skip
    classes = f"{tmp_path / 'app'}:{aar / 'classes.jar'}"
    shows_the_similarity(made, classes, tmp_path / "run", aar / "assets", aar / "jni/x86_64")


def stand_ins(folder: Path) -> Path:
    """For Android's classes, which read folders."""
    sources = (TESTS / "languages/android/android").rglob("*.java")
    said(required("javac"), *LINT, "-d", folder / "stand-ins", *sources)
    return folder / "stand-ins"


def shows_the_similarity(
    made: Made, classes: str | Path, folder: Path, assets: Path, libraries: Path
) -> None:
    """What the example does on Linux' JVM, at its first start and after the app became another version."""
    android = stand_ins(folder)
    starter = TESTS / "languages/android/com/example/embed/Shown.java"
    path = f"{classes}:{android}"
    said(required("javac"), *LINT, "-cp", path, "-d", folder / "starter", starter)
    files = folder / "files"
    files.mkdir()
    settings = {"assets": assets, "files": files, "java.library.path": libraries}
    words = [f"-D{name}={value}" for name, value in settings.items()]
    path += f":{folder / 'starter'}"
    command = [required("java"), "-Xcheck:jni", *words, "-cp", path, "com.example.embed.Shown"]
    expected = float(said(made.bundles[0].program, "--similarity", *TEXTS[:2]))
    kept = files / NAME / "manifest.json"
    for _ in range(2):
        assert float(said(*command)) == pytest.approx(expected, abs=1e-6)
        assert contents(kept.parent) == contents(made.bundles[0].directory)
        # As if it were of the app's version before.
        kept.write_text("{}")


def test_a_wheel_with_androids_tag_is_installed_and_gives_the_programs_vectors(
    made: Made, tmp_path: Path
) -> None:
    first, second = (next(bundle.directory.parent.glob(f"*_{abi}.whl")) for bundle, abi in zip(made.bundles, ("x86_64", "arm64_v8a"), strict=True))  # fmt: skip
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--disable-pip-version-check",
    ]
    said(*pip, "--target", tmp_path / "here", first)
    asked = f"import small_bert, struct, sys; [sys.stdout.buffer.write(struct.pack('<%df' % len(row), *row)) for row in small_bert.encode({TEXTS!r})]"
    found = said(sys.executable, "-c", asked, environment={"PYTHONPATH": str(tmp_path / "here")})
    assert found == vectors(made.bundles[0])
    # As Android's own builds of Python ask for it, from here.
    abroad = ("--platform", "android_24_arm64_v8a", "--only-binary", ":all:", "--python-version", "3.13")
    said(*pip, *abroad, "--target", tmp_path / "there", second)
    library = tmp_path / "there/small_bert/bundle/lib/libembed.so"
    with zipfile.ZipFile(made.bundles[1].directory.parent / "small-bert-linux-arm64-fast.aar") as archive:
        assert library.read_bytes() == archive.read("jni/arm64-v8a/libembed.so")
