"""How much of Python stays out of the frozen program, leanest first. Each is tried before it is used."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from edgepack.context import BuildContext


@dataclass(frozen=True, kw_only=True)
class Excludes:
    """How much is left out of a freeze."""

    name: str
    modules: tuple[str, ...] = ()
    """Of Python, that the program does not need."""
    encodings: tuple[str, ...] | None = None
    """Codecs that stay; None: all."""
    drop_hooks: bool = False
    """Whether PyInstaller's own start-up hooks go; they import much for modules that the program does not have."""


UNUSED = (
    "_bz2 _codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr _codecs_tw _compat_pickle _compression _curses _decimal "
    "_hashlib _lzma _multibytecodec _py_abc _pydecimal _sqlite3 _ssl _strptime _threading_local argparse asyncio base64 bisect bz2 "
    "calendar concurrent csv curses datetime decimal distutils doctest email fnmatch fractions getopt gettext gzip hashlib http "
    "importlib.abc importlib.metadata importlib.readers importlib.resources importlib.util ipaddress lib2to3 locale lzma "
    "multiprocessing numbers numpy pathlib pdb pickle pkg_resources pprint py_compile pydoc queue quopri random selectors "
    "setuptools shutil socket sqlite3 ssl statistics string stringprep subprocess tarfile tempfile test threading tkinter "
    "tracemalloc unicodedata unittest urllib xml xmlrpc zipfile"
)
"""Nothing of the kind happens in the program: what is here is imported by something that is imported by something."""

LEAN = Excludes(
    name="lean",
    modules=tuple(UNUSED.split()),
    # cp437 is how zipimport reads the names in base_library.zip; Python runs in its UTF-8 mode.
    encodings=("ascii", "cp437", "latin_1", "utf_8"),
    drop_hooks=True,
)
WHOLE = Excludes(name="whole")
LEANEST_FIRST = (LEAN, WHOLE)


IMPORTED = """\
import ast, importlib, sys
for node in ast.walk(ast.parse(open(sys.argv[1], "rb").read())):
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and not node.level:
        names = [node.module]
    else:
        continue
    for name in names:
        importlib.import_module(name)
print(*sys.modules)
"""


def for_module(excludes: Excludes, file: Path, *, context: BuildContext) -> Excludes:
    """Modules to leave out, without what a user's own module imports, and what that imports; with a module, all codecs written in Python stay.

    Raises ``ToolError`` for an import that does not work.
    """
    imported = context.run([sys.executable, "-I", "-S", "-c", IMPORTED, file]).split()
    wanted = {*imported, *(name.partition(".")[0] for name in imported)}
    return replace(
        excludes, modules=tuple(name for name in excludes.modules if name not in wanted), encodings=None
    )
