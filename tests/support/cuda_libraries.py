"""Libraries with device code, made on the spot: real shared libraries whose fat binaries hold made-up kernels."""

import random
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import zstandard

ZSTD, SPECIFIC = 0x8000, 0x100000


def cubin(kernels: Sequence[str], *, architecture: int, size: int = 0, seed: int = 0) -> bytes:
    """An ELF file as nvcc's: symbols of functions, and ``size`` bytes of what stands for instructions."""
    names, symbols = bytearray(b"\0"), bytearray(24)
    for kernel in kernels:
        symbols += struct.pack("<IBBHQQ", len(names), 2, 0, 1, 0, 0)
        names += kernel.encode() + b"\0"
    text = random.Random(f"{architecture} {seed} {kernels}").randbytes(size)
    parts = [bytes(names), bytes(symbols), text]
    offsets = [64]
    for part in parts:
        offsets.append(offsets[-1] + len(part) + -len(part) % 8)
    content = b"".join(part + bytes(-len(part) % 8) for part in parts)
    rows = [
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (0, 3, 0, 0, offsets[0], len(names), 0, 0, 1, 0),
        (0, 2, 0, 0, offsets[1], len(symbols), 1, 0, 8, 24),
        (0, 1, 6, 0, offsets[2], len(text), 0, 0, 8, 0),
    ]
    headers = b"".join(struct.pack("<IIQQQQIIQQ", *row) for row in rows)
    flags = architecture << 16 | 5 << 8 | architecture
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, 190, 1, 0, 0, offsets[3], flags, 64, 56, 0, 64, 4, 1
    )
    return head + content + headers


def entry(
    content: bytes, *, architecture: int, specific: bool = False, ptx: bool = False, packing: int = ZSTD
) -> bytes:
    """Code for one architecture, under zstd as CUDA 13 keeps it; ``packing`` is the flag that says so, 0: not packed."""
    packed = zstandard.ZstdCompressor().compress(content) if packing else b""
    stored = packed or content
    padded = stored + bytes(-len(stored) % 8)
    flags = 0x11 | packing | (SPECIFIC if specific else 0)
    head = struct.pack(
        "<HHIQI4xHHI8xQ8xQ",
        1 if ptx else 2,
        0x101,
        64,
        len(padded),
        len(packed),
        8,
        1,
        architecture,
        flags,
        len(content),
    )
    return head + padded


def fatbin(*entries: bytes) -> bytes:
    content = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(content)) + content


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A translation unit to be: its kernels, and the architectures that it is compiled for."""

    kernels: tuple[str, ...]
    architectures: tuple[str, ...] = ("80", "86", "90a")
    size: int = 60_000
    ptx: str = ""
    packing: int = ZSTD

    def fatbin(self) -> bytes:
        entries = [
            entry(
                cubin(self.kernels, architecture=int(each.rstrip("a")), size=self.size),
                architecture=int(each.rstrip("a")),
                specific=each.endswith("a"),
                packing=self.packing,
            )
            for each in self.architectures
        ]
        if self.ptx:
            entries.append(entry(b".version 9.0 //" * 50, architecture=int(self.ptx), ptx=True))
        return fatbin(*entries)


UNITS = (
    Unit(kernels=("_ZN11onnxruntime4cuda18_BinaryElementWiseIfEEvv", "_ZN11onnxruntime4cuda4fillEv")),
    Unit(kernels=("_ZN11onnxruntime5flash16flash_fwd_kernelIfEEvv",), size=200_000),
    Unit(kernels=("_ZN45_GLOBAL__N__e1928ab6_12_fpgeneric_cu_69b3876714CopyVectorHalfEPKf",), size=300),
    Unit(kernels=("$__internal_0_$__cuda_sm20_div", "_Z3moeIfEvv"), architectures=("90a",)),
)

SOURCE = """
#define WEAK __attribute__((weak))
extern WEAK void **__cudaRegisterFatBinary(void *wrapper);
extern WEAK void __cudaRegisterFatBinaryEnd(void **handle);
extern WEAK void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit,
                                        void *tid, void *bid, void *block, void *grid, int *size);
struct wrapper {{ int magic, version; const void *data; void *file; }};
__attribute__((section(".nvFatBinSegment"))) struct wrapper wrappers[{count}] = {{ {rows} }};
const void *fatbin_of(int index) {{ return wrappers[index].data; }}
static struct {{ int unit; char *name; }} kernels[] = {{ {kernels} }};
// What nvcc puts into every unit, where there is a CUDA runtime to be told.
__attribute__((constructor)) static void register_all(void) {{
  if (!__cudaRegisterFatBinary) return;
  for (int unit = 0; unit < {count}; ++unit) {{
    void **handle = __cudaRegisterFatBinary(&wrappers[unit]);
    for (int at = 0; at < sizeof kernels / sizeof *kernels; ++at)
      if (kernels[at].unit == unit)
        __cudaRegisterFunction(handle, kernels[at].name, kernels[at].name, kernels[at].name, -1, 0, 0, 0, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
  }}
}}
extern const unsigned char blob[];
const void *blob_of(void) {{ return blob; }}
int answer(void) {{ return 42; }}
"""


def library(
    folder: Path,
    units: Sequence[Unit] = UNITS,
    *,
    blobs: Sequence[int] = (80, 90),
    name: str = "libkernels.so",
    options: Sequence[str] = (),
) -> Path:
    """A shared library with the units' device code, each pointed at by a relocation, and cubins among its constants."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ['.section .nv_fatbin,"a"', ".align 8"]
    for index, unit in enumerate(units):
        (folder / f"{index}.fatbin").write_bytes(unit.fatbin())
        lines += [
            ".align 8",
            f".hidden fat{index}",
            f".globl fat{index}",
            f'fat{index}: .incbin "{folder}/{index}.fatbin"',
        ]
    (folder / "blob").write_bytes(
        b"".join(cubin(["_Z3mha"], architecture=each, size=40_000) + bytes(8) for each in blobs) or b"none"
    )
    lines += [
        ".section .rodata",
        ".align 64",
        ".hidden blob",
        ".globl blob",
        f'blob: .incbin "{folder}/blob"',
    ]
    lines += ['.section .note.GNU-stack,"",@progbits']
    (folder / "code.s").write_text("\n".join(lines) + "\n")
    rows = ", ".join(f"{{0x466243b1, 1, fat{index}, 0}}" for index in range(len(units)))
    externs = "".join(f"extern const unsigned char fat{index}[];\n" for index in range(len(units)))
    kernels = ", ".join(
        f'{{{index}, "{kernel}"}}'
        for index, unit in enumerate(units)
        for kernel in unit.kernels
        if not kernel.startswith("$")
    )
    (folder / "code.c").write_text(externs + SOURCE.format(count=len(units), rows=rows, kernels=kernels))
    path = folder / name
    sources = [folder / "code.c", folder / "code.s"]
    command: list[str | Path] = ["gcc", "-shared", "-fPIC", "-O1", "-w", "-o", path, *sources, *options]
    subprocess.run(command, check=True)
    return path
