"""One libembed per processor, loaded by glibc and by musl, under what Android lets apps ask of Linux."""

import os
import platform
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.any_libc import compiled, nothing_asked
from tests.support.bare_root import CHROOT, bare_root
from tests.support.bundles import bundle_in, made_bundle, unpack_tarball
from tests.support.debian_packages import unpacked
from tests.support.languages import node
from tests.support.once import made_once
from tests.support.small_models import write_small_bert

from edgepack.foundry.proof.emulator import find_emulator
from edgepack.foundry.toolchains.choose import choose
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.target import Platform

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(3600)]

TESTS = Path(__file__).parents[1]
TEXTS = ["A man is eating food.", "", "Grüße \N{CAT FACE} " * 40, *(f"text {number}" for number in range(30))]
TARGETS = {"x86_64": "linux-x86-fast", "aarch64": "linux-arm64-fast"}
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, kw_only=True)
class Device:
    """A bundle, and the beginning of a command that runs programs for its processor."""

    arch: str
    bundle: Bundle
    before: Sequence[str | Path]
    context: HostContext

    def vectors(self, program: Sequence[str | Path], form: str = "any") -> bytes:
        library = self.bundle.directory / "lib/libembed.so"
        return said(*self.before, *program, library, self.bundle.directory, form, *TEXTS)

    @property
    def expected(self) -> bytes:
        return said(*self.before, self.bundle.program, "--out", "raw", "--", *TEXTS)


def said(*command: str | Path) -> bytes:
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


@pytest.fixture(scope="module", params=sorted(TARGETS))
def device(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shared_context: HostContext
) -> Device:
    arch = request.param

    def make(folder: Path) -> None:
        (folder / "small-bert").mkdir()
        model = write_small_bert(folder / "small-bert")
        forms = ("--set", "library=true", "--as", "static-library", "--as", "npm")
        made_bundle(
            TARGETS[arch],
            folder / "made",
            "--model",
            str(model),
            *forms,
            "--set",
            "package.version=1.2.0",
        )

    folder = made_once(tmp_path_factory, f"any-libc-{arch}", make) / "made"
    bundle = bundle_in(next(each for each in folder.iterdir() if each.is_dir()))
    here = arch == platform.machine()
    before = () if here else find_emulator(arch, context=shared_context).command("max")
    return Device(arch=arch, bundle=bundle, before=before, context=shared_context)


def host(device: Device, folder: Path, libc: str) -> Sequence[str | Path]:
    """A program that loads a library, as a command."""
    glibc = "2.28" if libc == "glibc" else None
    target = Platform(os="linux", arch=device.arch, libc=libc, glibc=glibc)  # type: ignore[arg-type]
    source, flags = TESTS / "languages/main.c", (f"-I{device.bundle.directory}/include", f"-I{TESTS}/support")
    toolchain = choose(target, context=device.context)
    if libc == "glibc":
        return [compiled(toolchain, source, folder / "main", flags=flags, context=device.context)]
    made = folder / "main.o"
    said(*toolchain.command("C"), "-O1", "-fPIC", *flags, "-c", source, "-o", made)
    root = unpacked("bookworm", *(f"{name}:{DEBIAN[device.arch]}" for name in ("musl", "musl-dev")))
    library, start = (
        root / f"{place}lib/{device.arch}-linux-musl/{name}"
        for place, name in (("", "libc.so"), ("usr/", "Scrt1.o"))
    )
    zig = toolchain.command("C")[0]
    said(zig, "ld.lld", "-pie", "-dynamic-linker", library, start, made, library, "-o", folder / "main")
    return [library, folder / "main"]


def test_it_asks_nobody_for_anything(device: Device) -> None:
    nothing_asked(device.bundle.directory / "lib/libembed.so")


@pytest.mark.parametrize("libc", ["glibc", "musl"])
def test_a_program_with_any_c_library_has_the_bits_of_the_bundles(
    device: Device, tmp_path: Path, libc: str
) -> None:
    assert device.vectors(host(device, tmp_path, libc)) == device.expected


def test_a_program_with_the_bundle_and_musl_inside_has_the_same(device: Device, tmp_path: Path) -> None:
    (package,) = device.bundle.directory.parent.glob("*-static.tar.zst")
    unpack_tarball(package, tmp_path)
    (folder,) = tmp_path.iterdir()
    target = Platform(os="linux", arch=device.arch, libc="musl")
    compiled(
        choose(target, context=device.context),
        TESTS / "languages/linked.c",
        tmp_path / "main",
        flags=(f"-I{folder}/include",),
        more=(folder / "lib/libembed.a",),
        context=device.context,
    )
    assert said(*device.before, tmp_path / "main", device.bundle.directory, *TEXTS) == device.expected


@pytest.mark.parametrize("libc", ["glibc", "musl"])
def test_the_addon_of_a_node_with_any_c_library_has_the_same(
    device: Device, tmp_path: Path, libc: str
) -> None:
    (package,) = device.bundle.directory.parent.glob("*.tgz")
    with tarfile.open(package) as archive:
        archive.extractall(tmp_path, filter="data")
    asked = tmp_path / "asked.mjs"
    asked.write_text(
        'import { Bundle } from "./package/index.mjs";\n'
        "const bundle = Bundle.open();\n"
        "for (const row of await bundle.embed(process.argv.slice(2))) process.stdout.write(new Uint8Array(row.buffer, row.byteOffset, row.byteLength));\n"
        "await bundle.close();\n"
    )
    with_it = loader(device, tmp_path, libc)
    assert said(*with_it, node(device.arch, libc), asked, *TEXTS) == device.expected


def loader(device: Device, folder: Path, libc: str) -> Sequence[str | Path]:
    """What runs a program that was linked with another system's C library."""
    if libc == "musl":
        # That of Debian 12 is older than what Node was built with.
        musl = unpacked("trixie", f"musl:{DEBIAN[device.arch]}")
        library = folder / f"libc.musl-{device.arch}.so.1"
        shutil.copy(musl / f"usr/lib/{device.arch}-linux-musl/libc.so", library)
        return [*device.before, library, "--library-path", folder]
    if not device.before:
        return []
    names = (f"{name}:{DEBIAN[device.arch]}" for name in ("libc6", "libstdc++6", "libgcc-s1"))
    return [*device.before, "-L", unpacked("bookworm", *names)]


def test_nothing_need_be_read_of_proc(device: Device, tmp_path: Path) -> None:
    if device.before:
        pytest.skip("qemu has a /proc of its own")
    root = tmp_path / "root"
    bare_root(root)
    shutil.copytree(device.bundle.directory, root / "bundle")
    shutil.copy(host(device, tmp_path, "glibc")[0], root / "main")
    inside: list[str | Path] = [Path("/usr/bin/unshare"), "--map-root-user"] if os.geteuid() else []
    words = ("/main", "/bundle/lib/libembed.so", "/bundle", "any", *TEXTS)
    assert said(*inside, CHROOT, root, *words) == device.expected


def test_android_allows_apps_all_that_it_asks_of_linux(device: Device, tmp_path: Path) -> None:
    if device.before:
        pytest.skip("qemu makes system calls of its own")
    assert device.vectors(host(device, tmp_path, "glibc"), "android") == device.expected
