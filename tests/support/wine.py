"""A Windows of one's own for the programs that a test process starts under wine: kernel32 and sockets, and nothing else."""

import atexit
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import termios
import time
from functools import cache
from pathlib import Path

import pytest

from edgepack.console import Story
from edgepack.errors import MissingToolError
from edgepack.plugins.context import host_context
from edgepack_windows.wine import Wine, find_wine

LIBRARIES = ("apisetschema", "ntdll", "kernel32", "kernelbase", "ws2_32", "ucrtbase")
FOR_CONSOLES = ("user32", "gdi32", "win32u", "advapi32", "sechost", "msvcrt", "rpcrt4", "zlib1", "version")
"""What ``conhost.exe`` needs besides, which shows a console."""


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


def under_wine(program: Path, *, console: bool = False) -> list[str]:
    """What a program's command line begins with; the process is the program's own, so that it can be killed and measured.

    With a console a terminal of Linux is one for the program; the test is skipped where this wine has none.
    """
    wine = required_wine()
    if console and not all((wine.libraries / name).is_file() for name in _files(console=True)):
        pytest.skip("this wine has no console")
    return ["env", *_variables(_windows(console), wine), str(wine.program), str(program)]


def at_terminal() -> None:
    """In a process that begins: its standard input is the terminal that Ctrl-C is typed at."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_for_console(terminal: int) -> None:
    """Until wine's console reads a terminal: what is typed before is lost."""
    while termios.tcgetattr(terminal)[3] & termios.ICANON:
        time.sleep(0.01)


def left_in(folder: Path) -> list[Path]:
    """What is in a folder when wine's server is done: what an ended program had open it removes a moment after that program's end."""
    for _ in range(1000):
        if not list(folder.iterdir()):
            break
        time.sleep(0.01)
    return list(folder.iterdir())


def _files(*, console: bool) -> list[str]:
    more = ["conhost.exe", *(f"{name}.dll" for name in FOR_CONSOLES)]
    return [*(f"{name}.dll" for name in LIBRARIES), *(more if console else ())]


def _variables(folder: Path, wine: Wine) -> list[str]:
    places = [f"WINEPREFIX={folder}", f"TMPDIR={folder}", *wine.variables]
    return [*places, "WINEDEBUG=-all", "WINEDLLOVERRIDES=wineboot.exe=d", "LC_ALL=C.UTF-8"]


@cache
def _windows(console: bool) -> Path:
    """As ``run_under_wine.sh`` lays one, for all programs of this process."""
    wine = required_wine()
    folder = Path(tempfile.mkdtemp(prefix="edgepack-wine-"))
    system = folder / "drive_c/windows/system32"
    system.mkdir(parents=True)
    (folder / "dosdevices").mkdir()
    (folder / "dosdevices/c:").symlink_to("../drive_c")
    (folder / "dosdevices/z:").symlink_to("/")
    for name in _files(console=console):
        (system / name).symlink_to(wine.libraries / name)

    def tell_server(word: str) -> None:
        command = ["env", *_variables(folder, wine), str(wine.server), word]
        nowhere = subprocess.DEVNULL
        subprocess.run(command, check=False, stdout=nowhere, stderr=nowhere)

    def end() -> None:
        tell_server("-k9")
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    # One that a program started would hold that program's outputs open for seconds after its end. Left alone it ends after ten minutes.
    tell_server("-p600")
    return folder
