"""What of Emscripten's own sources is compiled as part of the kernel archive."""

from collections.abc import Iterable, Iterator

from edgepack.api.kit import Unit

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


def web_units(files: Iterable[str], *, threads: bool = False) -> Iterator[Unit]:
    """These files of libc++ as units of the archive."""
    flags = (*_FLAGS, "-pthread") if threads else _FLAGS
    for file in files:
        name = f"libcxx/src/{file}"
        yield Unit(name=name, source=f"{EMSCRIPTEN}/system/lib/{name}", language="CXX", flags=flags)
