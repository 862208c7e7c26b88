"""How much of Python is left out of the frozen program, leanest first."""

from __future__ import annotations

from edgepack.runner.pyinstaller import Trim

NEVER = ("_hashlib", "_ssl", "bz2", "curses", "distutils", "doctest", "lib2to3", "lzma", "numpy", "pdb", "pydoc", "setuptools", "sqlite3", "ssl", "test", "tkinter", "unittest", "xml", "xmlrpc")
LEAN = ("_pydecimal _py_abc _strptime _threading_local ast base64 bisect calendar contextvars copy csv dataclasses datetime decimal dis email fractions getopt gzip hashlib inspect ipaddress logging numbers opcode pathlib pickle _compat_pickle _compression pprint py_compile quopri random selectors shutil socket statistics string stringprep subprocess tarfile tempfile token tokenize tracemalloc typing urllib zipfile importlib.metadata importlib.resources importlib.readers importlib.abc importlib.util contextlib threading fnmatch unicodedata resource _heapq _multibytecodec _codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr _codecs_tw sre_compile sre_constants sre_parse").split()
TRIMS = (
    Trim(name="lean", excludes=(*NEVER, *LEAN), encodings=("ascii", "cp437", "latin_1", "utf_8"), drop_hooks=True),
    Trim(name="safe", excludes=NEVER),
    Trim(name="whole"),
)
