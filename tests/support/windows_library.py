"""A sample bundle with ``lib/embed.dll``: libembed itself, and a table of vectors in the model's and the runtime's place."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.foundry.link.standalone import build_standalone
from edgepack.foundry.toolchains.zig import zig_program
from edgepack.foundry.units import ProgramSources
from edgepack.records.target import Platform
from edgepack.runner.freeze.sample_bundle import write_manifest
from edgepack.runner.native.build import lay_interfaces
from edgepack.runner.native.sources import EXPORTS, library_sources, own_encoder
from edgepack_static.table import sources
from edgepack_windows.import_library import lay_import_library
from edgepack_windows.pe import windows_library
from edgepack_windows.registers import require_no_thread_register
from tests.support.table_sample import write_table_sample

LIBRARY = "lib/embed.dll"
CALLS = Path(__file__).with_name("calls_library.c")
FREESTANDING = (
    "-O1",
    "-fno-builtin",
    "-fno-stack-protector",
    "-nostdlib",
    "-Wl,--entry=start,--stack=1048576",
    "-lkernel32",
)
"""For programs without a C library, whose own parts zig would compile for a minute; stacks are as small as Microsoft's linker has them."""


def build_library(context: BuildContext) -> bytes:
    """``embed.dll`` with the static builder's encoder. Compiles for most of a minute the first time."""
    files = library_sources(own_encoder(dict(sources())))
    wanted = ProgramSources(files=files, output="libembed.so", exports=EXPORTS)
    elf = build_standalone(wanted, platform=Platform(os="windows", arch="x86_64"), context=context)
    require_no_thread_register(elf / "libembed.so")
    return windows_library((elf / "libembed.so").read_bytes(), name=Path(LIBRARY).name)


def write_library_sample(folder: Path, *, context: BuildContext) -> None:
    write_table_sample(folder)
    lay_interfaces(folder)
    (folder / LIBRARY).write_bytes(build_library(context))
    lay_import_library("embed.dll", EXPORTS, folder / "lib/embed.lib", context=context)
    write_manifest(folder, library="")


def compile_for_windows(source: Path, program: Path, *words: str) -> Path:
    """A program as a compiler for Windows makes it, that finds Windows' own headers."""
    zig = zig_program()
    headers = [f"-isystem{zig.parent}/lib/libc/include/any-windows-any", f"-isystem{zig.parent}/lib/include"]
    command: Sequence[str | Path] = [zig, "cc", "-target", "x86_64-windows-gnu", source, *headers, *words]
    subprocess.run([*command, *FREESTANDING, "-o", program], check=True)
    return program
