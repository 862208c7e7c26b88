"""What a WebAssembly module is made of: its functions by their names, where the linker's map says they are from."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from edgepack.api import BundleError
from edgepack.api.kit import Form
from edgepack.files.elf import Layout
from edgepack.foundry.link.composition import LINKER
from edgepack.foundry.linkmap import Piece
from edgepack_web.foundry.binary import (
    CODE,
    DATA,
    MAGIC,
    WasmError,
    bodies,
    encode_module,
    encode_u32,
    function_names,
    imported_functions,
    sections,
)

SECTIONS = (
    "custom",
    "type",
    "import",
    "function",
    "table",
    "memory",
    "global",
    "export",
    "start",
    "element",
    "code",
    "data",
    "data count",
)
STRINGS = ".rodata"
"""As the ELF record calls them."""
_INPUT = re.compile(r"^\s*\S+\s+[0-9a-f]+\s+[0-9a-f]+\s+(?P<file>\S.*):\((?P<name>[^()]*)\)$")


def is_module(path: Path) -> bool:
    """Whether a file is a WebAssembly module."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def module_layout(path: Path) -> Layout:
    """A module's sections; what they begin with counts as headers. Raises ``BundleError``."""
    try:
        parts = sections(path.read_bytes())
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror}") from error
    except WasmError as error:
        raise BundleError(f"{path} is not a valid WebAssembly module: {error}") from error
    sizes: dict[str, int] = {}
    headers = len(MAGIC)
    for part in parts:
        name = SECTIONS[part.id] if part.id < len(SECTIONS) else f"section {part.id}"
        sizes[name] = sizes.get(name, 0) + len(part.content)
        headers += 1 + len(encode_u32(len(part.content)))
    return Layout(headers=headers, sections=sizes)


MODULE = Form(
    layout=module_layout,
    headers="headers of sections",
    padding="",
    alignment="numbers of functions",
    areas={
        form: area
        for library, area in (
            ("libbulkmemory", "libc"),
            ("libc", "libc"),
            ("libc++", "libc++"),
            ("libc++abi", "libc++"),
            ("libc_optz", "libc"),
            ("libcompiler_rt", "compiler runtime"),
            ("libemmalloc", "allocator"),
            ("libnoexit", "libc"),
            ("libstubs", "libc"),
        )
        # As Emscripten names what is compiled with threads, and without exceptions.
        for form in (
            f"{library}{threads}{exceptions}.a" for threads in ("", "-mt") for exceptions in ("", "-noexcept")
        )
    },
)


def without_names(module: bytes) -> bytes:
    return encode_module([part for part in sections(module) if part.name != "name"])


def module_pieces(named: bytes, map_text: str, objects: str) -> Iterator[Piece]:
    """The functions of a module that has their names, and its other sections as the linker's own.

    Their sizes are those of the optimized module, into whose functions others may have been merged. ``objects`` is the
    folder of the kernel archive's, which the linker's map names.
    """
    files = _files(map_text, objects)
    parts = [part for part in sections(named) if part.name != "name"]
    names = function_names(sections(named))
    first = imported_functions(parts)
    for index, body in enumerate(bodies(parts)):
        name = names.get(first + index, "")
        size = len(body) + len(encode_u32(len(body)))
        yield Piece(output=SECTIONS[CODE], file=files.get(name, LINKER), section=name or "code", size=size)
    for part in parts:
        if part.id not in (0, CODE):
            section = STRINGS if part.id == DATA else SECTIONS[part.id]
            yield Piece(output=SECTIONS[part.id], file=LINKER, section=section, size=len(part.content))


def _files(map_text: str, objects: str) -> Mapping[str, str]:
    """Function → object."""
    found: dict[str, str] = {}
    for line in map_text.splitlines():
        if match := _INPUT.match(line):
            found.setdefault(match["name"], match["file"].removeprefix(objects))
    return found
