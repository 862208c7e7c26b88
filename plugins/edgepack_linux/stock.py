"""ONNX Runtime as it was released: the library of a wheel, and the C++ runtime that it needs.

The wheels' library runs on glibc 2.28 and takes libstdc++ of the device's system. That of the building machine may ask for a newer
glibc than the device has; Debian 11's asks for 2.18, and has all that the wheels import.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from edgepack.api import BuildContext, Platform, RuntimeArtifact, TargetError, UsageError
from edgepack.api.kit import (
    Archive,
    Package,
    RuntimeFolder,
    SourceFile,
    Wheel,
    closure_of,
    fetch_archives,
    license_text,
    unpack_matching,
    wheel_file,
)
from edgepack.fetch.wheels import wheel_of_file
from edgepack.files.elf import architecture
from edgepack.files.elf_shrink import shrunk
from edgepack.models.ort.releases import stock_files, stock_wheel

SCHEMA = "1"
DISTRIBUTION = "onnxruntime"
GCC = "10.2.1"
"""Debian 11's."""
CXX = {
    "libstdc++.so.6": "usr/lib/*/libstdc++.so.6.0.28",
    "libgcc_s.so.1": "lib/*/libgcc_s.so.1",
}
"""The C++ runtime as others ask for it → its file in Debian's packages."""
GLIBC = (
    *("libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1"),
    *("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"),
)
"""Of the device; all their symbols have versions."""


def _archive(name: str, arch: str, sha256: str, size: int) -> Archive:
    package = Package(suite="bullseye", kind="deb", name=f"{name}:{arch}")
    return Archive(file=f"{name}_{GCC}-6_{arch}.deb", sha256=sha256, size=size, debian=package)


ARCHIVES: Mapping[str, Mapping[str, Archive]] = {
    "x86_64": {
        "libstdc++": _archive(
            "libstdc++6", "amd64", "5c155c58935870bf3b4bfe769116841c0d286a74f59eccfd5645693ac23f06b1", 492_540
        ),
        "libgcc_s": _archive(
            "libgcc-s1", "amd64", "e478f2709d8474165bb664de42e16950c391f30eaa55bc9b3573281d83a29daf", 41_400
        ),
    },
    "aarch64": {
        "libstdc++": _archive(
            "libstdc++6", "arm64", "7869aa540cc46e9f3d4267d5bde2af0e5b429a820c1d6f1a4cfccfe788c31890", 450_672
        ),
        "libgcc_s": _archive(
            "libgcc-s1", "arm64", "e2fcdb378d3c1ad1bcb64d4fb6b37aab44011152beca12a4944f435a2582df1f", 34_572
        ),
    },
}
"""Architecture → component → package."""


def wheel_for(named: str, platform: Platform) -> Wheel:
    """The wheel of a release that is pinned, or a wheel's file. Raises ``UsageError``."""
    if platform.arch not in ARCHIVES or platform.libc not in (None, "glibc"):
        libc = platform.libc or "glibc"
        raise UsageError(
            f"no wheel of ONNX Runtime is for {platform.os} on {platform.arch} with {libc}, only for glibc on {' and '.join(ARCHIVES)}",
            hint="--set runtime=minimal compiles one",
        )
    if not named.endswith(".whl"):
        return stock_wheel(named, platform.arch)
    wheel = wheel_of_file(Path(named))
    if wheel.name != DISTRIBUTION:
        raise UsageError(
            f"{Path(named).name} is a wheel of {wheel.name}, not of {DISTRIBUTION}",
            hint="those for GPUs go with the targets for GPUs",
        )
    return wheel


def fetch_stock(wheel: Wheel, platform: Platform, *, context: BuildContext) -> None:
    """Put the wheel and the C++ runtime into the store."""
    stock_files(wheel, context=context)
    _packages(platform.arch, context)


def stock_runtime(wheel: Wheel, platform: Platform, *, context: BuildContext) -> RuntimeArtifact:
    """The library with what it needs and the licences, made once for a wheel.

    Raises ``TargetError`` for a wheel without the library or one of another architecture, and what fetching raises.
    """
    unpacked = stock_files(wheel, context=context)
    library = _library_in(unpacked, wheel, platform)
    closure = closure_of([library], among=(), elsewhere=tuple(CXX), versioned=(*GLIBC, *CXX))
    unused = closure.unused.get(library.name, ())
    packages = _packages(platform.arch, context) if closure.elsewhere else {}

    def make(folder: Path) -> None:
        made = RuntimeFolder(folder)
        made.add_onnxruntime(unpacked)
        made.onnxruntime.write_bytes(shrunk(library.read_bytes(), unnamed=unused))
        for component, package in packages.items():
            unpack_matching(package, folder / ".debian", tuple(CXX.values()))
            made.add_license(f"{component}-{GCC}", license_text(component) or "")
        for name in closure.elsewhere:
            made.add(wheel_file(folder / ".debian", Path(CXX[name]).name), name=name)

    inputs = {
        "schema": SCHEMA,
        "wheel": wheel.sha256,
        "packages": " ".join(each.sha256 for each in ARCHIVES[platform.arch].values()),
    }
    folder = RuntimeFolder(context.store.cached("stock-runtime", inputs, make))
    size = sum(file.stat().st_size for file in folder.lib.iterdir())
    context.note(f"ONNX Runtime {wheel.version} as released, {size / 1e6:.1f} MB")
    changes = [f"{library.name}: sections that are not loaded removed"]
    changes += [f"{library.name}: no longer names {name}, of which it imports nothing" for name in unused]
    return folder.artifact(
        version=wheel.version,
        toolchain=f"wheel {wheel.requirement}",
        source_files=(
            *wheel.source_files("onnxruntime"),
            *(_source_files(platform.arch) if packages else ()),
        ),
        changes=tuple(changes),
    )


def _library_in(unpacked: Path, wheel: Wheel, platform: Platform) -> Path:
    """ONNX Runtime's library. Raises ``TargetError`` for a wheel that has none for the platform."""
    called = wheel.file.name if wheel.file else wheel.requirement
    found = sorted(unpacked.rglob("libonnxruntime.so*"))
    if not found:
        raise TargetError(
            f"{called} has no libonnxruntime.so in onnxruntime/capi",
            hint="take a wheel of onnxruntime for Linux, as PyPI has it",
        )
    if (arch := architecture(found[0])) != platform.arch:
        raise TargetError(
            f"the library in {called} is for {arch or 'no processor of Linux'}, the target's devices are {platform.arch}",
            hint=f"take the wheel for {platform.arch}, or a target for {arch}",
        )
    return found[0]


def _packages(arch: str, context: BuildContext) -> Mapping[str, Path]:
    archives = ARCHIVES[arch]
    found = fetch_archives([(each,) for each in archives.values()], context=context)
    return dict(zip(archives, found, strict=True))


def _source_files(arch: str) -> Sequence[SourceFile]:
    return [
        SourceFile(component=component, version=GCC, file=each.file, sha256=each.sha256, shipped=True)
        for component, each in ARCHIVES[arch].items()
    ]
