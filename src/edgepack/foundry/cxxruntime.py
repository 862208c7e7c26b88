"""libc++ without what only other programs need: wide characters, and facets for money, dates, messages and sorting.

A locale holds all facets of the standard library, and every stream asks for a locale: whoever formats one number
links half a megabyte. What ONNX Runtime formats and parses are numbers, in the "C" locale.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LOCALE = "libcxx/src/locale.cpp"
FLAGS = ("-D_LIBCPP_HAS_NO_WIDE_CHARACTERS",)

_FACETS = r"collate|messages|money_get|money_put|moneypunct|time_get|time_put|codecvt<char(?:16|32)_t"
_INSTALLED = re.compile(rf"^[ \t]*install\(&make<(?:std::)?(?:{_FACETS})\b.*\n", re.M)
_NEEDED = re.compile(
    # A facet's id, as std::use_facet refers to it, or an instance for wide characters.
    r"^_ZNSt3__1(?:\d+(?:collate|messages|money_get|money_put|moneypunct|time_get|time_put)I|7codecvtID[isu]).*2idE$"
    r"|^_ZN?K?St3__1\d+basic_\w+Iw|^_ZNK?St3__1\d+\w+IwN?|^_ZNK?St3__112basic_stringIw"
)


def small_locale(source: str) -> str:
    """``locale.cpp`` whose "C" locale has the facets for characters and numbers only; lines stay where they were."""
    return _INSTALLED.sub("\n", source)


def needs_whole_runtime(symbols: Iterable[str]) -> list[str]:
    """Of the symbols that the library's own objects need those that the small runtime does not serve, sorted."""
    return sorted(symbol for symbol in symbols if _NEEDED.match(symbol))
