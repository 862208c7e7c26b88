"""libc++ without what only other programs need: wide characters, and facets for money, dates, messages and sorting.

A locale holds all facets of the standard library, and every stream asks for a locale: whoever formats one number
links half a megabyte. What ONNX Runtime formats and parses are numbers, in the "C" locale.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from edgepack.foundry.patch import Patch, RuntimeRequest
from edgepack.foundry.units import Unit

ZIG = "@ZIG@"
"""What stands for the folder of zig's headers and sources."""
LOCALE = "libcxx/src/locale.cpp"
THREAD_END = "libcxxabi/src/cxa_thread_atexit.cpp"
_ENDS_THREADS = ("-UHAVE___CXA_THREAD_ATEXIT_IMPL",)
UNWINDER = "libunwind/src/libunwind.cpp"

_FACETS = r"collate|messages|money_get|money_put|moneypunct|time_get|time_put|codecvt<char(?:16|32)_t"
_INSTALLED = re.compile(rf"^[ \t]*install\(&make<(?:std::)?(?:{_FACETS})\b.*\n", re.M)
_NEEDED = re.compile(
    # A facet's id, as std::use_facet refers to it, or an instance for wide characters.
    r"^_ZNSt3__[12](?:\d+(?:collate|messages|money_get|money_put|moneypunct|time_get|time_put)I|7codecvtID[isu]).*2idE$"
    r"|^_ZN?K?St3__[12]\d+basic_\w+Iw|^_ZNK?St3__[12]\d+\w+IwN?|^_ZNK?St3__[12]12basic_stringIw"
)


def small_locale(source: str) -> str:
    """``locale.cpp`` whose "C" locale has the facets for characters and numbers only; lines stay where they were."""
    return _INSTALLED.sub("\n", source)


def needs_whole_runtime(symbols: Iterable[str]) -> list[str]:
    """Symbols that the library's own objects need, and that the small runtime does not serve, sorted."""
    return sorted(symbol for symbol in symbols if _NEEDED.match(symbol))


def _serves(request: RuntimeRequest) -> bool:
    """Whether the small runtime is enough: string kernels know locales and wide characters."""
    return not needs_whole_runtime(request.asked) and not any(
        "St3__1" in symbol for symbol in request.undefined
    )


SMALL_RUNTIME = (
    Patch(
        name="libc++ without wide characters",
        file="libcxx",
        units="libcxx/*",
        applies=_serves,
        flags=("-D_LIBCPP_HAS_NO_WIDE_CHARACTERS",),
    ),
    Patch(
        name="the facets of the C locale",
        file=LOCALE,
        units=LOCALE,
        applies=_serves,
        must_find=(_INSTALLED,),
        rewrite=lambda source, _: small_locale(source),
    ),
)


SHADOW_STACK = Patch(
    name="a shadow stack is unwound, too",
    file="libunwind",
    units="libunwind/*",
    applies=lambda request: request.arch == "x86_64" and request.kind == "full",
    flags=("-fcf-protection=return",),
)
"""Whoever catches an exception takes its callers off the processor's own stack as well."""


def cxx_runtime_units(library: Path, *, exceptions: bool, ends_threads: bool = True) -> Iterator[Unit]:
    """libc++ and libc++abi from zig's sources in ``library``, compiled on demand like everything else.

    Without ``exceptions`` they are without RTTI and unwind tables, too; with them libunwind belongs to it. ``ends_threads``:
    the C library destroys what belongs to a thread (``__cxa_thread_atexit_impl``); libc++abi does it where it does not.
    """
    flags = (*_FLAGS, *(_THROWING if exceptions else _NOT_THROWING))
    for folder in ("libcxx/src", "libcxx/src/ryu", "libcxx/src/filesystem", "libcxxabi/src"):
        for path in sorted((library / folder).glob("*.cpp")):
            if path.name not in (_ONLY_NOT_THROWING if exceptions else _ONLY_THROWING):
                name = path.relative_to(library).as_posix()
                last = _ENDS_THREADS if name == THREAD_END and not ends_threads else ()
                yield Unit(name=name, source=f"{ZIG}/{name}", language="CXX", flags=(*flags, *last))
    for name, (language, own) in _UNWIND.items() if exceptions else ():
        yield Unit(name=name, source=f"{ZIG}/{name}", language=language, flags=(*_UNWIND_FLAGS, *own))


_ONLY_THROWING = (
    "cxa_exception.cpp",
    "cxa_exception_storage.cpp",
    "cxa_personality.cpp",
    "private_typeinfo.cpp",
)
_ONLY_NOT_THROWING = ("cxa_noexception.cpp",)
_COMMON = ("-Oz", "-DNDEBUG", "-fPIC", "-ffunction-sections", "-fdata-sections", "-fvisibility=hidden")
_FLAGS = (
    "-std=c++23",
    "-D_GNU_SOURCE",
    "-DHAVE___CXA_THREAD_ATEXIT_IMPL",
    "-DLIBCXX_BUILDING_LIBCXXABI",
    # The message of an unexpected end would drag the demangler in.
    "-DLIBCXXABI_SILENT_TERMINATE",
    "-D_LIBCPP_BUILDING_LIBRARY",
    "-D_LIBCXXABI_BUILDING_LIBRARY",
    f"-I{ZIG}/libcxx/src",
    f"-I{ZIG}/libcxx/src/include",
    f"-I{ZIG}/libcxxabi/src",
    "-nostdinc++",
    *_COMMON,
    "-fvisibility-inlines-hidden",
    "-fexperimental-relative-c++-abi-vtables",
)
_NOT_THROWING = ("-fno-exceptions", "-fno-rtti", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables")
_THROWING = ("-fexceptions", "-frtti", f"-I{ZIG}/libunwind/include")
_UNWIND_FLAGS = (
    *_COMMON,
    "-D_GNU_SOURCE",
    "-D_LIBUNWIND_IS_NATIVE_ONLY",
    "-D_LIBUNWIND_HIDE_SYMBOLS",
    f"-I{ZIG}/libunwind/include",
)
_UNWIND = {
    UNWINDER: ("CXX", ("-std=c++17", "-nostdinc++", "-fno-exceptions", "-fno-rtti")),
    "libunwind/src/UnwindLevel1.c": ("C", ("-std=c99", "-fexceptions")),
    "libunwind/src/UnwindLevel1-gcc-ext.c": ("C", ("-std=c99", "-fexceptions")),
    "libunwind/src/UnwindRegistersRestore.S": ("ASM", ()),
    "libunwind/src/UnwindRegistersSave.S": ("ASM", ()),
}
