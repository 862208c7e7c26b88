"""The native program's sources, compiled with whatever compiler is here, as one file: that takes seconds, once."""

import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from edgepack.files.store import Store, default_root
from edgepack.runner.native.sources import (
    ort_encoder,
    program_sources,
    source_files,
)

FLAGS = ("-std=c++17", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-fno-exceptions", "-fno-rtti")
OPTIMIZED = {"base/sha256.cc": "-O2"}
"""By source: without it, to check a sample bundle's files takes a second in each of hundreds of processes."""


def compiler() -> list[str]:
    if found := shutil.which("g++") or shutil.which("clang++"):
        return [found]
    return [sys.executable, "-m", "ziglang", "c++"]


def compile_together(sources: Mapping[str, str], program: Path, *flags: str) -> Path:
    """Compile all ``*.cc`` into one program; one of the same sources is in the cache."""
    return _compiled(compile_anew, compiler(), sources, program, *flags)


def compile_apart(sources: Mapping[str, str], program: Path, *flags: str, by: Sequence[str] = ()) -> Path:
    """The same of sources that are no one file: each by itself."""

    def make(sources: Mapping[str, str], program: Path, *flags: str) -> Path:
        folder = program.with_name(program.name + "-sources")
        write_sources(sources, folder)
        units = [str(folder / name) for name in sources if name.endswith(".cc")]
        command = [
            *(by or compiler()),
            *FLAGS,
            *flags,
            f"-I{folder}",
            "-o",
            str(program),
            *units,
            "-lpthread",
        ]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stderr
        return program

    return _compiled(make, [*(by or compiler())], sources, program, *flags)


def _compiled(
    compile: Callable[..., Path], by: Sequence[str], sources: Mapping[str, str], program: Path, *flags: str
) -> Path:
    said = subprocess.run([*by, "-v"], capture_output=True, encoding="utf-8", check=False).stderr
    # But not the folder of a compiler that an environment has of its own: it is the same in all of them.
    version = "".join(line for line in said.splitlines(keepends=True) if not line.startswith("InstalledDir"))
    inputs = {
        **{f"source {name}": text for name, text in sources.items()},
        # A C library that is newer than that of a machine that shares the cache may make what does not start there.
        "compiler": " ".join((version, *platform.libc_ver())),
        "flags": " ".join((*FLAGS, *flags)),
        **({"optimized": str(OPTIMIZED)} if compile is compile_anew else {}),
    }

    def make(folder: Path) -> None:
        shutil.copy(compile(sources, program, *flags), folder / "program")

    made = Store(root=default_root()).cached("test-program", inputs, make) / "program"
    shutil.copy(made, program)
    return program


def write_sources(sources: Mapping[str, str], folder: Path) -> None:
    """Sources as files."""
    for name, text in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def compile_anew(sources: Mapping[str, str], program: Path, *flags: str) -> Path:
    """Any warning is an ``AssertionError``."""
    folder = program.with_name(program.name + "-sources")
    write_sources(sources, folder)
    units = [name for name in sources if name.endswith(".cc")]
    together = folder / "together.cc"
    apart = [name for name in units if is_foreign(name) or name in OPTIMIZED]
    together.write_text("".join(f'#include "{name}"\n' for name in units if name not in apart))
    objects = [compile_object(folder / name, folder, flags_of(name, flags)) for name in apart]
    command = [
        *compiler(),
        *FLAGS,
        *flags,
        f"-I{folder}",
        "-o",
        str(program),
        str(together),
        *objects,
        "-ldl",
        "-lpthread",
    ]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert "warning:" not in done.stderr, done.stderr
    return program


def is_foreign(name: str) -> bool:
    """Whether a source is of others: what a compiler warns of is left as it is."""
    return name.startswith("third_party/")


def flags_of(name: str, flags: Sequence[str]) -> Sequence[str]:
    """Of a source that is compiled by itself."""
    return (*flags, "-w") if is_foreign(name) else (*FLAGS, "-Werror", *flags, OPTIMIZED[name])


def compile_object(source: Path, root: Path, flags: Sequence[str]) -> str:
    """The object of a source."""
    object = source.with_suffix(".o")
    command = [*compiler(), *flags, f"-I{root}", "-c", "-o", str(object), str(source)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return str(object)


def compile_program(program: Path) -> Path:
    """``embed`` with the runtime in a library of its own; it can check signatures, serve, and use a GPU."""
    sources = program_sources(ort_encoder("loaded"), ("serve", "signatures", "gpu"))
    # In a sandbox a program finds the C library and no other of the system.
    return compile_together(sources, program, "-O0", "-static-libstdc++", "-static-libgcc")


def compile_features(program: Path, *features: str, possible: tuple[str, ...] = ()) -> Path:
    """``embed`` with these features and no other."""
    return compile_together(
        program_sources(ort_encoder("loaded"), features, possible=possible), program, "-O0"
    )


def compile_tokenizer_tool(program: Path, *flags: str) -> Path:
    """The tokenizer by itself: ``PROGRAM TABLE MAX_LENGTH``, binary texts in, ids out."""
    main = Path(__file__).with_name("tokens_main.cc")
    base = {name: text for name, text in source_files("base/").items() if name.endswith((".h", "/file.cc"))}
    sources = {**base, **source_files("tokenizer/"), main.name: main.read_text(encoding="utf-8")}
    return compile_together(sources, program, *(flags or ("-O1",)))
