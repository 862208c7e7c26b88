"""What linkers for Windows are given in a library's place: the names of its functions, and whose they are."""

from collections.abc import Sequence
from pathlib import Path

from edgepack.api import BuildContext
from edgepack.api.kit import zig_program


def lay_import_library(library: str, exported: Sequence[str], file: Path, *, context: BuildContext) -> None:
    """Write it for these functions of a library, as Microsoft's, LLVM's and GNU's linkers read it. Raises ``ToolError``."""
    definition = context.work_dir / f"{library}.def"
    names = "".join(f"    {name}\n" for name in exported)
    definition.write_text(f"LIBRARY {library}\nEXPORTS\n{names}", encoding="ascii")
    context.run([zig_program(), "dlltool", "-m", "i386:x86-64", "-d", definition, "-l", file])
