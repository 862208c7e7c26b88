"""The C library of an image that begins with nothing: glibc's loader and libraries, of a pinned package of Debian's.

All bundles of a processor have the same layer. It says what it is where scanners of images look, as distroless images do.
"""

from pathlib import Path

from edgepack.api import BuildContext, Bundle
from edgepack.api.axes import TarEntry
from edgepack.api.kit import Archive, Package, fetch_archives, is_static, unpack_matching
from edgepack_oci.content.layers import LIBC, Layer, make_layer

VERSION = "2.36-9+deb12u14"
GLIBC = (2, 36)
MAINTAINER = "GNU Libc Maintainers <debian-glibc@lists.debian.org>"
LIBRARIES = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1")
"""What a bundle may take from a device, and so all that it can need of an image."""
LOADERS = {
    "x86_64": ("x86_64-linux-gnu", "ld-linux-x86-64.so.2", "lib64"),
    "aarch64": ("aarch64-linux-gnu", "ld-linux-aarch64.so.1", "lib"),
}
"""Architecture → its folder of libraries below /lib, its loader, and where programs look for that."""
PACKAGES = {
    "x86_64": Archive(
        file=f"libc6_{VERSION}_amd64.deb",
        sha256="ba4f88f73dbc3ae9055f3c20f4523bfdbaf1ad13ff95e258924f77d20b4fbedf",
        size=2759320,
        debian=Package(suite="bookworm", kind="deb", name="libc6:amd64"),
    ),
    "aarch64": Archive(
        file=f"libc6_{VERSION}_arm64.deb",
        sha256="01f4330719fd4f65580e16ea5a0527f372fca750e8f588d26deaf09f2d3b1cf4",
        size=2324660,
        debian=Package(suite="bookworm", kind="deb", name="libc6:arm64"),
    ),
}
OS_RELEASE = (
    b'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nNAME="Debian GNU/Linux"\nVERSION_ID="12"\nID=debian\n'
)
COPYRIGHT = "usr/share/doc/libc6/copyright"


def why_no_image(bundle: Bundle) -> str:
    """Why a bundle cannot be run from an image; empty where it can."""
    platform = bundle.manifest["target"]["platform"]
    if platform["os"] != "linux":
        return f"it is for {platform['os']}"
    if not needs_libc(bundle):
        runs = is_static(bundle.program)
        return _why_not_run(bundle) if runs else f"it is for {platform['libc']}, and images have glibc"
    if platform["arch"] not in PACKAGES:
        return f"no C library for {platform['arch']} is pinned"
    glibc = tuple(int(number) for number in str(platform["glibc"] or "0").split("."))
    if glibc > GLIBC:
        return f"it requires glibc {platform['glibc']}, and images have {'.'.join(map(str, GLIBC))}"
    return _why_not_run(bundle)


def _why_not_run(bundle: Bundle) -> str:
    runs = bundle.manifest["runner"].get("command", []) is not None
    return "" if runs else "its program runs on its devices only"


def needs_libc(bundle: Bundle) -> bool:
    """Whether an image of it begins with glibc: not for devices with another C library, or none."""
    return str(bundle.manifest["target"]["platform"].get("libc", "glibc")) == "glibc"


def libc_layer(arch: str, *, context: BuildContext) -> Layer:
    """The layer with glibc. Raises ``DownloadError`` where the package is neither in the store nor to be had."""
    package = PACKAGES[arch]
    (file,) = fetch_archives([(package,)], context=context)
    folder = context.work_dir / f"oci-libc-{arch}"
    triple, loader, _ = LOADERS[arch]
    wanted = [f"lib/{triple}/{name}" for name in (*LIBRARIES, loader)]
    unpack_matching(file, folder, [*wanted, COPYRIGHT])
    return make_layer(LIBC, _entries(arch, folder), context=context)


def _entries(arch: str, folder: Path) -> list[TarEntry]:
    triple, loader, place = LOADERS[arch]
    status = (
        f"Package: libc6\nStatus: install ok installed\nArchitecture: {PACKAGES[arch].file.rpartition('_')[2][:-4]}\n"
        f"Source: glibc\nVersion: {VERSION}\nMaintainer: {MAINTAINER}\nDescription: GNU C Library: Shared libraries\n"
    )
    libraries = f"lib/{triple}"
    files = [
        TarEntry(name="etc/os-release", source=OS_RELEASE),
        *(TarEntry(name=f"{libraries}/{name}", source=folder / libraries / name) for name in LIBRARIES),
        # The kernel starts it.
        TarEntry(name=f"{libraries}/{loader}", source=folder / libraries / loader, executable=True),
        TarEntry(name=f"{place}/{loader}", link=f"{'../lib/' if place != 'lib' else ''}{triple}/{loader}"),
        TarEntry(name=COPYRIGHT, source=folder / COPYRIGHT),
        TarEntry(name="var/lib/dpkg/status.d/libc6", source=status.encode()),
    ]
    above = {parent.as_posix() for entry in files for parent in Path(entry.name).parents} - {"."}
    return sorted(
        [*files, *(TarEntry(name=name, source=folder) for name in above)],
        key=lambda entry: entry.name.split("/"),
    )
