"""The C++ sources of the native program, as they are compiled: those that come with edgepack, and what is generated."""

from __future__ import annotations

import json
from importlib.resources import files

TOOL = ("tokens_main.cc", "tokens_library.cc")
"""The tokenizer by itself: a program, which only tests use, and a library for the program in Python."""
TOKENIZER = (
    "bpe.cc",
    "graphemes.cc",
    "normalizer.cc",
    "table.cc",
    "tokenizer.cc",
    "unigram.cc",
    "wordpiece.cc",
)
TOKENIZER_EXPORTS = ("tokens_encode", "tokens_facts", "tokens_open")
"""What tokens_library.cc offers."""
LOADED = ("ort_loaded.cc",)
"""For a runtime in a shared library of its own."""
LINKED = ("ort_linked.cc",)
"""For a runtime in the same file."""
LIBRARY = ("library.cc",)
OF_THE_PROGRAM = (
    "about.cc",
    "bench.cc",
    "main.cc",
    "numbers.cc",
    "options.cc",
    "output.cc",
    "reading.cc",
    "writing.cc",
)
EXPORTS = ("embed_close", "embed_dimension", "embed_open", "embed_texts")
"""What embed.h declares."""
NO_SERVER = 'This is the native program: it has everything but "embed serve".\n'


def source_files(*, without: tuple[str, ...] = ()) -> dict[str, str]:
    """Name → text of the sources and headers."""
    folder = files("edgepack.runner.native") / "csrc"
    named = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}
    return {
        name: text
        for name, text in sorted(named.items())
        if name.endswith((".cc", ".h")) and name not in without
    }


def program_sources() -> dict[str, str]:
    """The program with the runtime linked in."""
    return {**source_files(without=(*TOOL, *LOADED, *LIBRARY)), "help.h": help_header()}


def library_sources(*, linked: bool = True) -> dict[str, str]:
    """libembed, with the runtime linked in, or loading the library that the manifest names."""
    return source_files(without=(*TOOL, *OF_THE_PROGRAM, *(LOADED if linked else LINKED)))


def tokens_library_sources() -> dict[str, str]:
    """The tokenizer as a library."""
    wanted = (*TOKENIZER, "tokens_library.cc")
    return {name: text for name, text in source_files().items() if name in wanted or name.endswith(".h")}


def help_header() -> str:
    """The frozen program's own help, so that there is one command line and one text about it."""
    text = native_help()
    # A compiler need not take string literals of more than 64 kB, and takes adjacent ones as one.
    lines = "\n".join(json.dumps(line, ensure_ascii=True) for line in text.splitlines(keepends=True))
    return f"// Generated.\nnamespace embed {{\ninline constexpr const char *HELP =\n{lines};\n}}\n"


def native_help() -> str:
    """The frozen program's help without its server, which the native program does not have."""
    from edgepack.runner.frozen.options import parser

    lines = parser("embed").format_help().splitlines(keepends=True)
    shown = (line for line in lines if "server" not in line)
    return "".join(NO_SERVER if '"embed serve" answers' in line else line for line in shown)
