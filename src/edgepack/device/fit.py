"""Whether a bundle can run on a device, before anything is sent to it."""

import re

from edgepack.errors import FloorError
from edgepack.files.elf import architecture, glibc_floor, version_key
from edgepack.records.bundle import Bundle
from edgepack.records.device import DeviceDescription

ALSO = {"aarch64": frozenset({"armv7l"}), "armv8l": frozenset({"armv7l"})}
"""Programs of other processors that a kernel may run."""


def require_fit(bundle: Bundle, device: DeviceDescription, *, named: str) -> None:
    """Raise ``FloorError`` for a bundle of another system or processor, or with files that need a newer glibc than is there."""
    platform = bundle.manifest["target"]["platform"]
    system, machine = str(platform.get("os", "linux")), str(platform.get("arch", ""))
    there = {"Linux": "linux", "Windows": "windows", "Darwin": "macos"}.get(device.system, device.system)
    if system in ("linux", "windows", "macos") and system != there:
        raise FloorError(
            f"{bundle.name} is for {system}, and {named} has {device.system}",
            hint="build it for that system: edgepack targets",
        )
    if machine and machine != device.machine and machine not in ALSO.get(device.machine, ()):
        raise FloorError(
            f"{bundle.name} is for {machine}, and {named} is {device.machine}",
            hint="build it for that processor: edgepack targets",
        )
    has = re.search(r"(?:glibc|GLIBC|GNU libc)\D{0,20}(\d+\.\d+)", device.libc)
    if has is None:
        return
    for file in bundle.manifest["files"]:
        path = bundle.directory / file["path"]
        floor = None if path.is_symlink() or architecture(path) is None else glibc_floor(path)
        if floor is not None and version_key(floor) > version_key(has[1]):
            raise FloorError(
                f"{file['path']} of {bundle.name} needs glibc {floor}, and {named} has {has[1]}",
                hint="build it for an older glibc, or for musl: edgepack targets",
            )


def fits(bundle: Bundle, device: DeviceDescription) -> bool:
    """Whether a bundle is for such a device."""
    try:
        require_fit(bundle, device, named="")
    except FloorError:
        return False
    return True
