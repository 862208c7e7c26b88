"""Of Emscripten's libc++ the parts with locales and streams, compiled without what only other programs need.

As in ``toolchains.libcxx``; the rest of libc++ comes compiled with Emscripten.
"""

import re
from collections.abc import Iterable, Iterator

from edgepack.api.kit import Patch
from edgepack.foundry.patch import RuntimeRequest
from edgepack.foundry.toolchains.libcxx import LOCALE, needs_whole_runtime, small_locale
from edgepack.foundry.units import Unit

SOURCES = ("libcxx/src/ios.cpp", "libcxx/src/ios.instantiations.cpp")
STREAMS = "libcxx/src/iostream.cpp"
"""``std::clog`` and the like are set up when the module starts, by whoever has this file in it."""
_STREAM_OBJECTS = frozenset(f"_ZNSt3__2{len(name)}{name}E" for name in ("cin", "cout", "cerr", "clog"))
_WIDE = re.compile(r"^[ \t]*install\(&make<[^\n]*\bwchar_t\b.*\n", re.M)
_BEGIN = "_LIBCPP_BEGIN_NAMESPACE_STD"
_NARROW = "#define _LIBCPP_HAS_NO_WIDE_CHARACTERS"
EMSCRIPTEN = "@EMSCRIPTEN@"
"""What stands for Emscripten's folder."""

_FLAGS = (
    "-std=c++20",
    "-Oz",
    "-DNDEBUG",
    "-DLIBCXX_BUILDING_LIBCXXABI=1",
    "-D_LIBCPP_BUILDING_LIBRARY",
    "-D_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS",
    "-fno-exceptions",
    "-ffunction-sections",
    "-fdata-sections",
    f"-I{EMSCRIPTEN}/system/lib/libcxx/src",
)


def narrow_source(source: str) -> str:
    """The source without its own parts for wide characters; the headers before it keep theirs, as musl's need them."""
    return source.replace(_BEGIN, f"{_NARROW}\n{_BEGIN}", 1)


def narrow_locale(source: str) -> str:
    """``locale.cpp`` whose "C" locale has the facets for characters and numbers only, none of them for wide characters.

    The facets that are left out stay defined, for who may ask for them by name; the linker drops them.
    """
    return _WIDE.sub("\n", small_locale(source))


def _serves(request: RuntimeRequest) -> bool:
    return not needs_whole_runtime(request.asked)


def _sets_up_streams(request: RuntimeRequest) -> bool:
    return _serves(request) and not _STREAM_OBJECTS.isdisjoint(request.asked)


LEAN_STREAMS = (
    *(
        Patch(
            name=f"{file} without wide characters",
            file=file,
            units=file,
            applies=_sets_up_streams if file == STREAMS else _serves,
            must_find=(re.compile(_BEGIN),),
            rewrite=lambda source, _: narrow_source(source),
            root=True,
        )
        for file in (*SOURCES, STREAMS)
    ),
    Patch(
        name="the facets of the C locale",
        file=LOCALE,
        units=LOCALE,
        applies=_serves,
        must_find=(_WIDE,),
        rewrite=lambda source, _: narrow_locale(source),
        root=True,
    ),
)
"""These parts in the place of Emscripten's, unless what is linked asks for all of them."""


def web_units(files: Iterable[str], *, threads: bool = False) -> Iterator[Unit]:
    """These files of libc++ as units of the archive."""
    flags = (*_FLAGS, "-pthread") if threads else _FLAGS
    for file in files:
        name = f"libcxx/src/{file}"
        yield Unit(name=name, source=f"{EMSCRIPTEN}/system/lib/{name}", language="CXX", flags=flags)
