"""How much of Python stays out of the frozen program, leanest first. Each is tried before it is used."""

from dataclasses import dataclass


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


HEAVY = (
    "_bz2 _curses _decimal _hashlib _lzma _sqlite3 _ssl bz2 concurrent.futures.process curses "
    "distutils doctest email http lib2to3 lzma multiprocessing numpy pdb pkg_resources pydoc setuptools "
    "sqlite3 ssl tarfile test tkinter unittest urllib xml xmlrpc zipfile"
)
"""Nothing of the kind happens in the program."""

UNUSED = (
    "_codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr _codecs_tw _compat_pickle _compression "
    "_multibytecodec _py_abc _pydecimal _strptime _threading_local asyncio.windows_events asyncio.windows_utils "
    "base64 bisect calendar csv datetime decimal fnmatch fractions getopt gzip hashlib importlib.abc "
    "importlib.metadata importlib.readers importlib.resources importlib.util ipaddress numbers "
    "pathlib pickle pprint py_compile quopri random shutil "
    "statistics stringprep tempfile tracemalloc unicodedata"
)
"""Imported by something that is imported by something, in functions that the program never calls."""

LEAN = Excludes(
    name="lean",
    modules=tuple(sorted({*HEAVY.split(), *UNUSED.split()})),
    # cp437 is how zipimport reads the names in base_library.zip; Python runs in its UTF-8 mode.
    encodings=("ascii", "cp437", "latin_1", "utf_8"),
    drop_hooks=True,
)
SAFE = Excludes(name="safe", modules=tuple(sorted(HEAVY.split())), drop_hooks=True)
WHOLE = Excludes(name="whole")
LEANEST_FIRST = (LEAN, SAFE, WHOLE)
