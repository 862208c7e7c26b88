"""RV64GC, what Linux distributions for riscv64 take for granted: no vector instructions, MLAS's kernels in plain C++."""

from collections.abc import Iterator

from edgepack.api.axes import FeatureLevel, LinuxPlatform, Processor, Sysroot, disassembler
from edgepack.api.kit import Archive, Package


def beyond_rv64gc(code: bytes) -> Iterator[tuple[str, str]]:
    """Instructions that capstone, asked for RV64GC, does not know: vectors, bit manipulation, hints of newer profiles."""
    reader = disassembler("CS_ARCH_RISCV", "CS_MODE_RISCV64", "CS_MODE_RISCVC")
    for _, _, name, operands in reader.disasm_lite(code, 0):
        if name == ".byte":
            yield "more than RV64GC", f"bytes {operands}"


RISCV64 = Processor(
    name="riscv64",
    triple="riscv64-linux-gnu",
    headers="riscv",
    emulation="elf64lriscv",
    loader="/lib/ld-linux-riscv64-lp64d.so.1",
    debian="riscv64",
    oldest_glibc="2.27",
    levels=(
        # SiFive's U54 has RV64GC and nothing more.
        FeatureLevel(name="rv64gc", flags=frozenset(), emulated="sifive-u54"),
    ),
    beyond_baseline=beyond_rv64gc,
    sysroot=Sysroot(
        packages=(
            Archive(
                file="libc6-riscv64-cross_2.36-8cross1_all.deb",
                sha256="93f10d4bb0f279812121194e7dbdb61b14a70065d9cd6f25de4b08899a878195",
                size=1004648,
                debian=Package(suite="bookworm", kind="deb", name="libc6-riscv64-cross"),
            ),
        ),
        root="usr/riscv64-linux-gnu",
    ),
)


def platform() -> LinuxPlatform:
    return LinuxPlatform(processor=RISCV64)
