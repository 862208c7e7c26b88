"""A platform that runtimes are made for, registered: here Linux on riscv64."""

from collections.abc import Iterable

from edgepack import api
from edgepack.api.axes import RuntimePlatform


def platform() -> RuntimePlatform:
    """Platform of the processor; another C library, compiler or emulator is a class with these members."""
    from edgepack.api.axes import FeatureLevel, LinuxPlatform, Processor

    return LinuxPlatform(
        processor=Processor(
            name="riscv64",  # as uname -m says it
            triple="riscv64-linux-gnu",
            headers="riscv",  # zig has libc/include/riscv-linux-any
            emulation="elf64lriscv",  # lld's -m
            loader="/lib/ld-linux-riscv64-lp64d.so.1",
            debian="riscv64",
            oldest_glibc="2.27",
            levels=(FeatureLevel(name="rv64gc", flags=frozenset(), emulated="sifive-u54"),),  # qemu's -cpu
        )
    )


@api.hookimpl
def edgepack_specs() -> Iterable[api.Spec]:
    return [api.Spec(axis="platform", name="acme", summary="Linux on riscv64", make=platform)]
