"""A CUDA runtime that only takes down what a library registers with it: its fat binaries, and the kernels of each.

So that what the real runtime would be given can be compared with what should be left, after the loader has mapped and
relocated a pruned library as it does on a device.
"""

import hashlib
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgepack_cuda.fatbin import fatbin_bytes
from edgepack_cuda.image import read_image
from edgepack_cuda.kernels import functions_of
from edgepack_cuda.prune import device_code
from tests.support.fake_cuda import compile_library

REGISTER = {
    "__cudaRegisterFatBinary": r"""
#include <stdio.h>
#include <stdlib.h>
struct wrapper { int magic, version; const void *data; void *file; };
static FILE *record(void) {
  static FILE *file;
  const char *path = getenv("RECORD_REGISTRATIONS");
  if (!file && path) file = fopen(path, "w");
  return file;
}
#define NOTE(...) (record() ? fprintf(record(), __VA_ARGS__) : 0)
void **__cudaRegisterFatBinary(struct wrapper *unit) {
  static void *handle;
  const unsigned char *content = unit->data;
  size_t size = 16 + *(const unsigned long long *)(content + 8);
  NOTE("unit %zu %x %d ", (size_t)content, unit->magic, unit->version);
  for (size_t at = 0; at < size; ++at) NOTE("%02x", content[at]);
  NOTE("\n");
  return &handle;
}
""",
    "__cudaRegisterFatBinaryEnd": "void __cudaRegisterFatBinaryEnd(void **handle) { fflush(record()); }",
    "__cudaRegisterFunction": r"""
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *tid,
                            void *bid, void *block, void *grid, int *size) {
  NOTE("kernel %s\n", name);
}
""",
}
"""Function → its source, in an order in which they compile."""

VARIABLE = "RECORD_REGISTRATIONS"
"""Names the file that the recorder writes."""
LOAD = """
import ctypes, os, sys
for path in sys.argv[1:]:
    ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_GLOBAL)
"""


@dataclass(frozen=True, kw_only=True)
class Registered:
    """What one translation unit told the runtime."""

    place: int
    """Bytes behind the first fat binary's beginning."""
    wrapper: tuple[str, str]
    """Magic number (hexadecimal) and version."""
    sha256: str
    """Of the fat binary with its header, as it is in memory."""
    kernels: tuple[str, ...]
    """Mangled."""


def compile_recorder(folder: Path) -> Path:
    """``libcudart.so.13`` in a folder, with nothing but what constructors call."""
    return compile_library(folder / "libcudart.so.13", "\n".join(REGISTER.values()))


def registrations(*libraries: Path, record: Path) -> list[Registered]:
    """Load libraries in this order in a process of its own, all symbols bound, and read what was registered."""
    command = [sys.executable, "-I", "-c", LOAD, *map(str, libraries)]
    subprocess.run(command, check=True, env={VARIABLE: str(record)})
    return read_record(record)


def read_record(record: Path) -> list[Registered]:
    """What the recorder took down, in the order of the fat binaries."""
    units: list[Registered] = []
    for line in record.read_text().splitlines():
        what, *words = line.split()
        if what == "kernel":
            units[-1] = replace(units[-1], kernels=(*units[-1].kernels, words[0]))
            continue
        place, magic, version, content = words
        digest = hashlib.sha256(bytes.fromhex(content)).hexdigest()
        units.append(Registered(place=int(place), wrapper=(magic, version), sha256=digest, kernels=()))
    first = min((unit.place for unit in units), default=0)
    return sorted((replace(unit, place=unit.place - first) for unit in units), key=lambda unit: unit.place)


def assert_registered(found: Sequence[Registered], content: bytes, *, kept: Collection[int]) -> None:
    """Each unit of the library ``content`` is registered once, just as it is in the file.

    Of the units ``kept`` every kernel that the host's code names is in the code that stays; the others have none.
    """
    _, code, fatbins = device_code(read_image(content, "it"), "it")
    assert len(found) == len(fatbins)
    for unit, fatbin in zip(found, fatbins, strict=True):
        assert unit.wrapper == ("466243b1", "1")
        assert unit.place == fatbin.offset - fatbins[0].offset
        assert unit.sha256 == hashlib.sha256(fatbin_bytes(code, fatbin)).hexdigest()
        there = {name for each in fatbin.codes for name in functions_of(each, code)}
        assert bool(fatbin.codes) == (fatbin.index in kept)
        assert set(unit.kernels) <= there or fatbin.index not in kept, set(unit.kernels) - there
