"""A CUDA runtime that only takes down what a library registers with it: its fat binaries, and the kernels of each.

So that what the real runtime would be given can be compared with what should be left, after the loader has mapped and
relocated a pruned library as it does on a device.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack_cuda.fatbin import packed
from edgepack_cuda.image import read_image
from edgepack_cuda.kernels import functions_of
from edgepack_cuda.prune import device_code
from tests.fake_cuda import compile_library

REGISTER = {
    "__cudaRegisterFatBinary": r"""
#include <stdio.h>
#include <stdlib.h>
struct wrapper { int magic, version; const void *data; void *file; };
static FILE *record(void) {
  static FILE *file;
  const char *path = getenv("RECORD_REGISTRATIONS");
  if (!file) file = fopen(path ? path : "/dev/null", "w");
  return file;
}
void **__cudaRegisterFatBinary(struct wrapper *unit) {
  static void *handle;
  fprintf(record(), "unit %zu %x %d\n", (size_t)unit->data, unit->magic, unit->version);
  return &handle;
}
""",
    "__cudaRegisterFatBinaryEnd": "void __cudaRegisterFatBinaryEnd(void **handle) { fflush(record()); }",
    "__cudaRegisterFunction": r"""
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *tid,
                            void *bid, void *block, void *grid, int *size) {
  fprintf(record(), "kernel %s\n", name);
}
""",
}
"""Function → its source, in an order in which they compile."""

READ = """
import ctypes, hashlib, json, os, sys
for path in sys.argv[1:]:
    ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_GLOBAL)
units = []
for line in open(os.environ["RECORD_REGISTRATIONS"]):
    what, *words = line.split()
    if what == "kernel":
        units[-1][-1].append(words[0])
        continue
    place = int(words[0])
    size = int.from_bytes(ctypes.string_at(place + 8, 8), "little")
    digest = hashlib.sha256(ctypes.string_at(place, 16 + size)).hexdigest()
    units.append([place, words[1:], digest, []])
print(json.dumps(units))
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
    """Load libraries in this order in a process of its own, all symbols bound, and read what was registered.

    The recorder must be one of them, or found by the loader. Raises ``AssertionError`` with the loader's words.
    """
    done = subprocess.run(
        [sys.executable, "-I", "-c", READ, *map(str, libraries)],
        capture_output=True,
        text=True,
        check=False,
        env={"RECORD_REGISTRATIONS": str(record), "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")},
    )
    assert done.returncode == 0, done.stderr
    units = json.loads(done.stdout)
    first = min((unit[0] for unit in units), default=0)
    return sorted(
        (
            Registered(place=place - first, wrapper=tuple(wrapper), sha256=digest, kernels=tuple(kernels))
            for place, wrapper, digest, kernels in units
        ),
        key=lambda unit: unit.place,
    )


def assert_registered(found: Sequence[Registered], content: bytes, *, kept: Collection[int]) -> None:
    """Each unit of the library ``content`` is registered once, just as it is in the file.

    Of the units ``kept`` every kernel that the host's code names is in the code that stays; the others have none.
    """
    _, code, fatbins = device_code(read_image(content, "it"), "it")
    assert len(found) == len(fatbins)
    for unit, fatbin in zip(found, fatbins, strict=True):
        assert unit.wrapper == ("466243b1", "1")
        assert unit.place == fatbin.offset - fatbins[0].offset
        assert unit.sha256 == hashlib.sha256(packed(code, fatbin)).hexdigest()
        there = {name for each in fatbin.codes for name in functions_of(each, code)}
        assert bool(fatbin.codes) == (fatbin.index in kept)
        assert set(unit.kernels) <= there or fatbin.index not in kept, set(unit.kernels) - there
