"""The kernels of ``edgepack_engine``, called by themselves: a library of all levels of the processor, compiled as bundles have it.

Every array ends where a page that nobody may read begins: what a kernel reads or writes beyond an end brings the test down.
"""

import bisect
import ctypes
import mmap
import sys
import weakref
from collections.abc import Mapping, Sequence
from ctypes import c_bool, c_float, c_int32, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from edgepack_engine.builder import sources
from tests.support.native import compile_apart

Array = npt.NDArray[Any]
NEEDS = {
    "avx512": "avx512_vnni",
    "avxvnni": "avx_vnni",
    "avx2": "avx2",
    "sse41": "sse4_1",
    "base": "",
}
"""Levels, and what /proc/cpuinfo says of a processor that has them."""
LIBRARY = "ENGINE_KERNELS"
"""The variable that names a library to test in the place of the one that is compiled."""
KERNELS = ("norm", "quantize", "product", "attention", "gate", "rotate", "norm_heads")
SHARED = ("kernels.h", "kernels.inc", "numbers.inc", "attention.inc", "level.h", "plan.h", "unfused.h")
"""What every level includes."""
COMPILER = (sys.executable, "-m", "ziglang", "c++", "-target", "x86_64-linux-gnu.2.28")


class Norm(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("input", "skip", "bias", "weight", "shift", "smoothing")),
        ("epsilon", c_float),
        ("without_mean", c_bool),
        *((name, c_void_p) for name in ("sum", "output", "quantized", "ranges")),
        *((name, c_size_t) for name in ("rows", "width", "counted")),
    ]


class Quantization(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("input", "smoothing")),
        ("raised", c_float),
        ("is_unsigned", c_bool),
        *((name, c_void_p) for name in ("output", "ranges")),
        *((name, c_size_t) for name in ("rows", "width", "stride")),
    ]


class Product(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("input", "ranges", "weights", "sums")),
        ("zero", c_int32),
        *((name, c_void_p) for name in ("scales", "bias", "output")),
        *((name, c_size_t) for name in ("rows", "depth", "width", "stride")),
        ("activation", c_uint32),
    ]


class Attention(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("query", "key", "value", "output")),
        *(
            (name, c_size_t)
            for name in ("stride", "output_stride", "tokens", "keys", "heads", "groups", "size", "radius")
        ),
        *((name, c_bool) for name in ("causal", "in_floats")),
        ("scale", c_float),
        ("distances", c_void_p),
        ("reach", c_size_t),
        *((name, c_void_p) for name in ("by_query", "by_key", "kinds")),
        *((name, c_size_t) for name in ("kinds_stride", "kinds_count")),
        ("room", c_void_p),
    ]


class Gating(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("input", "output")),
        *((name, c_size_t) for name in ("rows", "width")),
        ("activation", c_uint32),
    ]


class Heads(ctypes.Structure):
    _fields_ = [
        ("first", c_void_p),
        *((name, c_size_t) for name in ("rows", "stride", "count", "size", "counted")),
        ("weight", c_void_p),
        ("epsilon", c_float),
        *((name, c_void_p) for name in ("positions", "turns")),
    ]


class Table(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), *((name, ctypes.CFUNCTYPE(None, c_void_p)) for name in KERNELS)]


class Guarded:
    """Room for arrays that end where nobody may read."""

    _all: ClassVar[weakref.WeakSet["Guarded"]] = weakref.WeakSet()

    @classmethod
    def end_of(cls, place: int) -> int:
        """Where the array at, or around, an address ends."""
        for one in cls._all:
            at = bisect.bisect_right(one._ends, place)
            if at < len(one._ends) and one._begins[one._ends[at]] <= place:
                return one._ends[at]
        raise ValueError(f"no guarded array is at {place:#x}")

    def __init__(self) -> None:
        self._pages: dict[int, list[mmap.mmap]] = {}
        self._used: dict[int, int] = {}
        self._ends: list[int] = []
        self._begins: dict[int, int] = {}
        """By end."""
        self._protect = ctypes.CDLL(None, use_errno=True).mprotect
        self._all.add(self)

    def empty(self, shape: tuple[int, ...], type: str) -> Array:
        """An array that holds what was there before; valid until ``clear``."""
        count = int(np.prod(shape))
        size = count * np.dtype(type).itemsize
        pages = -(-size // mmap.PAGESIZE) or 1
        used = self._used.get(pages, 0)
        self._used[pages] = used + 1
        known = self._pages.setdefault(pages, [])
        if used == len(known):
            known.append(mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE))
            begin = ctypes.addressof(ctypes.c_char.from_buffer(known[used]))
            guard = c_void_p(begin + pages * mmap.PAGESIZE)
            assert self._protect(guard, c_size_t(mmap.PAGESIZE), 0) == 0
            bisect.insort(self._ends, begin + pages * mmap.PAGESIZE)
            self._begins[begin + pages * mmap.PAGESIZE] = begin
        offset = pages * mmap.PAGESIZE - size
        return np.frombuffer(known[used], type, count, offset).reshape(shape)

    def copy(self, array: Array) -> Array:
        """The same numbers."""
        made = self.empty(array.shape, array.dtype.str)
        made[...] = array
        return made

    def clear(self) -> None:
        """Take back all arrays."""
        self._used.clear()


def attention_room(tokens: int, size: int) -> int:
    """As kernels.h has it."""
    wide = 16 if tokens <= 128 else 128
    padded = -(-tokens // wide) * wide
    numbers = padded * (size + 3) + -(-padded // 128) * size + 120 * (size + size // 2 + 3)
    return -(-numbers // 16) * 16


def place(array: Array | None) -> int | None:
    """Where an array lies."""
    return None if array is None else array.ctypes.data


def compile_kernels(
    library: Path,
    levels: Sequence[str] = tuple(NEEDS),
    changed: Mapping[str, str] | None = None,
    *,
    by: Sequence[str] = COMPILER,
    flags: Sequence[str] = ("-O2",),
) -> Path:
    """The library of levels, with one function a level that gives its table; ``changed`` are sources in the place of the engine's."""
    own = "".join(
        f"namespace embed {{ extern const Kernels {level}_kernels; }}\n"
        f'extern "C" const void *{level}() {{ return &embed::{level}_kernels; }}\n'
        for level in levels
    )
    chosen = {
        name: text
        for name, text in {**dict(sources()), **(changed or {})}.items()
        if name in SHARED or name in [f"kernels_{level}.cc" for level in levels]
    }
    main = '#include "kernels.h"\n' + own
    return compile_apart({**chosen, "levels.cc": main}, library, *flags, "-shared", "-fPIC", by=by)


def is_in(library: Path, level: str) -> bool:
    """Whether a library has a level of this processor."""
    return library.suffix == ".so" and hasattr(ctypes.CDLL(str(library)), level)


def level_of(library: Path, level: str) -> Table:
    """What computes for a level."""
    give = ctypes.CDLL(str(library))[level]
    give.restype = ctypes.POINTER(Table)
    table: Table = give().contents
    return table


def has_level(level: str) -> bool:
    """Whether this processor computes it."""
    return not NEEDS[level] or NEEDS[level] in Path("/proc/cpuinfo").read_text().split()
