"""Small programs and libraries in C, linked as bundles' are, and what a library may ask of whoever loads it."""

import subprocess
from pathlib import Path

from edgepack.files.elf_reader import SHT_DYNSYM, UNDEFINED, opened_elf
from edgepack.foundry.toolchain import Link, NativeToolchain
from edgepack.plugins.context import HostContext

DT_NEEDED, PT_TLS = 1, 7


def compiled(
    toolchain: NativeToolchain,
    source: Path,
    output: Path,
    *,
    exports: tuple[str, ...] = (),
    flags: tuple[str, ...] = (),
    more: tuple[Path, ...] = (),
    context: HostContext,
) -> Path:
    made = output.with_suffix(".o")
    usual = ["-O1", "-fPIC", "-fno-builtin", "-fvisibility=hidden"]
    subprocess.run([*toolchain.command("C"), *usual, *flags, "-c", source, "-o", made], check=True)
    link = Link(
        objects=[made, *more],
        output=output,
        map_file=output.with_suffix(".map"),
        log_file=output.with_suffix(".log"),
        exports=exports,
        libraries=toolchain.libraries(context=context),
    )
    toolchain.link(link, context=context)
    return output


def nothing_asked(library: Path) -> None:
    """No other library, no symbol of one, nothing for each thread."""
    with opened_elf(library) as file:
        assert file.dynamic_texts(DT_NEEDED) == []
        symbols = list(file.symbols(SHT_DYNSYM, local=False))
        assert symbols and not [name for name, _, section in symbols if section == UNDEFINED]
        assert PT_TLS not in [segment.kind for segment in file.segments]
