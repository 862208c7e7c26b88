"""The kernels of ``edgepack_engine`` for arm64, computed by qemu: a table like those of this processor's own levels, for the same tests."""

import ctypes
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from edgepack_engine.builder import sources
from tests.support import engine_kernels as engine
from tests.support.native import compile_apart

LEVELS = {"neon": "base", "dotprod": "dotprod", "i8mm": "i8mm"}
"""Levels, and whose kernels the program is asked for."""
COMPILER = (sys.executable, "-m", "ziglang", "c++", "-target", "aarch64-linux-musl", "-static")
TASKS: tuple[type[ctypes.Structure], ...] = (
    engine.Norm,
    engine.Quantization,
    engine.Product,
    engine.Attention,
    engine.Gating,
    engine.Heads,
    engine.Heads,
)


def compile_program(program: Path, changed: Mapping[str, str] | None = None) -> Path:
    """The program of all levels; ``changed`` are sources in the place of the engine's."""
    names = (*engine.SHARED, "kernels_base.cc", "kernels_neon.cc", "kernels_i8mm.cc")
    chosen = {name: text for name, text in {**dict(sources()), **(changed or {})}.items() if name in names}
    own = Path(__file__).with_suffix(".cc")
    chosen[own.name] = own.read_text(encoding="utf-8")
    return compile_apart(chosen, program, "-O2", by=COMPILER)


class Emulated:
    """A level of arm64: ``norm``, ``quantize`` and so on, which take the address of a task whose arrays are ``Guarded``."""

    def __init__(self, emulator: Sequence[str | Path], program: Path, level: str) -> None:
        self._process = subprocess.Popen(
            [*emulator, program, LEVELS[level]], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for number, name in enumerate(engine.KERNELS):
            setattr(self, name, partial(self._call, number))

    def close(self) -> None:
        """End the program."""
        self._process.communicate()

    def _call(self, kernel: int, address: int) -> None:
        """Raises ``AssertionError`` where the program ends instead of answering."""
        task = TASKS[kernel].from_address(address)
        size = ctypes.sizeof(task)
        arrays: dict[int, int] = {}
        places: list[tuple[int, int]] = []
        for name, kind, *_ in task._fields_:
            place = getattr(task, name)
            if kind is ctypes.c_void_p and place is not None:
                end = engine.Guarded.end_of(place)
                arrays[end] = min(place, arrays.get(end, place))
                places.append((getattr(type(task), name).offset, place))
        known = list(arrays)
        said = [struct.pack("<4Q", kernel, size, len(arrays), len(places)), ctypes.string_at(address, size)]
        for end, first in arrays.items():
            said += [struct.pack("<Q", end - first), ctypes.string_at(first, end - first)]
        for offset, place in places:
            end = engine.Guarded.end_of(place)
            said.append(struct.pack("<3Q", offset, known.index(end), place - arrays[end]))
        self._ask(b"".join(said), arrays)

    def _ask(self, call: bytes, arrays: Mapping[int, int]) -> None:
        given, made = self._process.stdin, self._process.stdout
        assert given is not None
        assert made is not None
        given.write(call)
        given.flush()
        for end, first in arrays.items():
            answer: Any = made.read(end - first)
            assert len(answer) == end - first, f"the program ended with {self._process.wait()}"
            ctypes.memmove(first, answer, len(answer))
