"""ARMv7-A with NEON, VFPv4 and division in hardware, and floats passed in registers: Cortex-A7, A15, A17, and 64-bit ones in 32-bit mode."""

from edgepack.api.axes import FeatureLevel, LinuxPlatform, Processor, Sysroot
from edgepack.api.kit import Archive, Package

ARMV7L = Processor(
    name="armv7l",
    triple="arm-linux-gnueabihf",
    headers="arm",
    emulation="armelf_linux_eabi",
    loader="/lib/ld-linux-armhf.so.3",
    debian="armhf",
    qemu="arm",
    # Thumb code is a quarter smaller. Without the last, files of 2 GB and more cannot be opened.
    flags=("-mcpu=cortex-a7", "-mthumb", "-D_FILE_OFFSET_BITS=64"),
    levels=(FeatureLevel(name="neon", flags=frozenset(), emulated="cortex-a7"),),
    sysroot=Sysroot(
        packages=(
            Archive(
                file="libc6-armhf-cross_2.36-8cross1_all.deb",
                sha256="bd4c250aef23a6145ad2749f7a54e0dca1c13bd520a34a8b3ba831284da93dc3",
                size=871004,
                debian=Package(suite="bookworm", kind="deb", name="libc6-armhf-cross"),
            ),
        ),
        root="usr/arm-linux-gnueabihf",
    ),
)


def platform() -> LinuxPlatform:
    return LinuxPlatform(processor=ARMV7L)
