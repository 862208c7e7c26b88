"""``edgepack_engine``'s session by itself, with the kernels of any processor, called as a library."""

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgepack.runner.native.sources import source_files
from edgepack_engine.builder import sources
from tests.support.engine_kernels import COMPILER, SHARED
from tests.support.native import compile_apart

Array = npt.NDArray[Any]
LIBRARY = "ENGINE_SESSION"
"""The variable that names a library to test in the place of the one that is compiled."""


def session_sources() -> dict[str, str]:
    """The session, what it includes, and the kernels of any processor."""
    engine = {
        name: text
        for name, text in sources()
        if not name.startswith("kernels") or name in (*SHARED, "kernels_base.cc")
    }
    base = {
        name: text
        for name, text in source_files("base/", "tokenizer/", "encoder/encoder.h").items()
        if name.endswith((".h", "/file.cc", "threads.cc")) or name == "tokenizer/table.cc"
    }
    return {**base, **engine}


def compile_session(
    library: Path,
    changed: Mapping[str, str] | None = None,
    *,
    by: Sequence[str] = COMPILER,
    flags: Sequence[str] = ("-O2",),
) -> Path:
    """The library; ``changed`` are sources in the place of the engine's."""
    own = Path(__file__).with_name("engine_session.cc")
    sources = {**session_sources(), **(changed or {}), own.name: own.read_text(encoding="utf-8")}
    return compile_apart(sources, library, *flags, "-shared", "-fPIC", by=by)


def session_vectors(
    library: Path,
    plan: Path,
    tokens: Any,
    *,
    dimension: int,
    threads: int = 1,
    times: int = 1,
    kernels: int | None = None,
) -> Array:
    """float32 [texts, dimension], of a session that computes ``times`` batches, the first of few texts and the last of all;
    ``kernels`` is where a level's table is.

    Raises ``ValueError`` with the error's code.
    """
    return _computed(
        library, plan, tokens, dimension=dimension, threads=threads, times=times, kernels=kernels
    )


def session_tokens(
    library: Path, plan: Path, tokens: Any, sizes: Array, *, dimension: int, width: int, **how: Any
) -> tuple[Array, Array]:
    """Vectors, and what each token has, float32 [texts, length, width]; texts have so many tokens, of which the mask hides some."""
    given = np.full((*tokens.ids.shape, width), np.nan, "<f4")
    made = _computed(library, plan, tokens, dimension=dimension, sizes=sizes, given=given, **how)
    return made, given


def session_parts(
    library: Path, plan: Path, ids: Array, types: Array, ends: Array, *, dimension: int, threads: int = 1
) -> Array:
    """float32 [parts, dimension] of one text's parts, each pooled of its own tokens."""
    made = np.full((len(ends), dimension), np.nan, "<f4")
    given = [np.ascontiguousarray(each, "<i8") for each in (ids, types, ends)]
    places = [ctypes.c_void_p(each.ctypes.data) for each in given]
    session = ctypes.CDLL(str(library))
    session.choose(None)
    code = session.pool(
        str(plan).encode(),
        threads,
        ctypes.c_size_t(len(ids)),
        *places[:2],
        ctypes.c_size_t(len(ends)),
        places[2],
        ctypes.c_size_t(dimension),
        ctypes.c_void_p(made.ctypes.data),
    )
    if code:
        raise ValueError(code)
    return made


def _computed(
    library: Path,
    plan: Path,
    tokens: Any,
    *,
    dimension: int,
    threads: int = 1,
    times: int = 1,
    kernels: int | None = None,
    sizes: Array | None = None,
    given: Array | None = None,
) -> Array:
    rows, length = tokens.ids.shape
    made = np.full((rows, dimension), np.nan, "<f4")
    ids = [np.ascontiguousarray(each, "<i8") for each in (tokens.ids, tokens.mask, tokens.types)]
    places = [ctypes.c_void_p(each.ctypes.data) for each in ids]
    counts = None if sizes is None else np.ascontiguousarray(sizes, "<u8")
    session = ctypes.CDLL(str(library))
    session.choose(ctypes.c_void_p(kernels))
    code = session.compute(
        str(plan).encode(),
        threads,
        times,
        ctypes.c_size_t(rows),
        ctypes.c_size_t(length),
        *places,
        ctypes.c_size_t(dimension),
        ctypes.c_void_p(made.ctypes.data),
        None if counts is None else ctypes.c_void_p(counts.ctypes.data),
        ctypes.c_size_t(0 if given is None else given.shape[-1]),
        None if given is None else ctypes.c_void_p(given.ctypes.data),
    )
    if code:
        raise ValueError(code)
    return made
