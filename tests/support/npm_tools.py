"""What the tests of the web target use from npm, as its lock file pins it: ``python -m tests.support.npm_tools`` fetches it.

Kept in the user's cache: it is 190 MB unpacked, and the same until the lock file changes.
"""

import hashlib
import shutil
import tempfile
from pathlib import Path

import pytest

from edgepack.files.store import default_root
from edgepack.tools import run_tool
from edgepack_web.npm.node import npm_command

HERE = Path(__file__).parents[1] / "js" / "tools"
FILES = ("package.json", "package-lock.json")


def tools_folder() -> Path:
    """Where they lie, if they were fetched."""
    digest = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in FILES)).hexdigest()[:16]
    return default_root() / "test-tools" / digest


def required_tools() -> Path:
    """The folder, or the test is skipped."""
    folder = tools_folder()
    if not folder.is_dir():
        pytest.skip(
            "bundlers, Deno and TypeScript are not here: python -m tests.support.npm_tools fetches them"
        )
    return folder


def fetch_tools() -> Path:
    folder = tools_folder()
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        for name in FILES:
            shutil.copyfile(HERE / name, beside / name)
        # Not `npm ci`, which asks for the other systems' programs, too.
        run_tool([*npm_command(), "install", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=beside)
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder


if __name__ == "__main__":
    fetch_tools()
