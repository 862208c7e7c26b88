"""Of Emscripten's libc++ the parts with locales and streams, compiled without what only other programs need.

As in ``foundry.cxxruntime``; the rest of libc++ comes compiled with Emscripten.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from edgepack.errors import ToolError
from edgepack.foundry.compile.archive import KernelArchive, source_of
from edgepack.foundry.compile.generate import Reduction, replaced
from edgepack.foundry.toolchains.libcxx import LOCALE, needs_whole_runtime, small_locale

STREAMS = "libcxx/src/iostream.cpp"
"""``std::clog`` and the like are set up when the module starts, by whoever has this file in it."""
_STREAM_OBJECTS = frozenset(f"_ZNSt3__2{len(name)}{name}E" for name in ("cin", "cout", "cerr", "clog"))


_WIDE = re.compile(r"^[ \t]*install\(&make<[^\n]*\bwchar_t\b.*\n", re.M)
_BEGIN = "_LIBCPP_BEGIN_NAMESPACE_STD"
_NARROW = "#define _LIBCPP_HAS_NO_WIDE_CHARACTERS"


def with_lean_streams(archive: KernelArchive, reduction: Reduction, asked: Collection[str]) -> Reduction:
    """The reduction with these parts in the place of Emscripten's, unless what is linked asks for all of them.

    ``asked`` are the symbols that all else needs.
    """
    if needs_whole_runtime(asked):
        return reduction
    units = [name for name in archive.units if name.startswith("libcxx/")]
    wanted = [name for name in units if name != STREAMS or _STREAM_OBJECTS.intersection(asked)]
    narrow = {name: replaced(archive, name, name, _narrow(archive, name)) for name in wanted}
    return replace(reduction, overrides={**reduction.overrides, **narrow}, roots=(*reduction.roots, *wanted))


def _narrow(archive: KernelArchive, name: str) -> str:
    source = source_of(archive, archive.units[name]).read_text()
    return narrow_locale(source) if name == LOCALE else narrow_source(source)


def narrow_source(source: str) -> str:
    """The source without its own parts for wide characters; the headers before it keep theirs, as musl's need them."""
    if _BEGIN not in source:
        raise ToolError("a source of libc++ is not as Emscripten's")
    return source.replace(_BEGIN, f"{_NARROW}\n{_BEGIN}", 1)


def narrow_locale(source: str) -> str:
    """``locale.cpp`` whose "C" locale has the facets for characters and numbers only, none of them for wide characters.

    The facets that are left out stay defined, for who may ask for them by name; the linker drops them.
    """
    return _WIDE.sub("\n", small_locale(source))
