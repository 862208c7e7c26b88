"""A Windows of one's own for the programs that a test process starts under wine: kernel32 and sockets, and nothing else."""

import atexit
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from edgepack.console import Story
from edgepack.errors import MissingToolError
from edgepack.plugins.context import host_context
from edgepack_windows.wine import Wine, find_wine

LIBRARIES = ("apisetschema", "ntdll", "kernel32", "kernelbase", "ws2_32", "ucrtbase")


@cache
def _found() -> Wine | str:
    """wine, or why there is none."""
    with host_context(story=Story(quiet=True), offline=True) as context:
        try:
            return find_wine(context=context)
        except MissingToolError as error:
            return error.message


def required_wine() -> Wine:
    """What is installed, or what ``edgepack fetch --target windows-x64`` brought; else the test is skipped."""
    found = _found()
    if isinstance(found, str):
        pytest.skip(found)
    return found


def under_wine(program: Path) -> list[str]:
    """What a program's command line begins with; the process is the program's own, so that it can be killed and measured."""
    wine = required_wine()
    return ["env", *_variables(_windows(), wine), str(wine.program), str(program)]


def _variables(folder: Path, wine: Wine) -> list[str]:
    places = [f"WINEPREFIX={folder}", f"TMPDIR={folder}", *wine.variables]
    return [*places, "WINEDEBUG=-all", "WINEDLLOVERRIDES=wineboot.exe=d", "LC_ALL=C.UTF-8"]


@cache
def _windows() -> Path:
    """As ``run_under_wine.sh`` lays one, for all programs of this process."""
    wine = required_wine()
    folder = Path(tempfile.mkdtemp(prefix="edgepack-wine-"))
    system = folder / "drive_c/windows/system32"
    system.mkdir(parents=True)
    (folder / "dosdevices").mkdir()
    (folder / "dosdevices/c:").symlink_to("../drive_c")
    (folder / "dosdevices/z:").symlink_to("/")
    for name in LIBRARIES:
        (system / f"{name}.dll").symlink_to(wine.libraries / f"{name}.dll")

    def end() -> None:
        command = ["env", *_variables(folder, wine), str(wine.server), "-k9"]
        subprocess.run(command, check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return folder
