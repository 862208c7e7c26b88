"""A Windows of one's own for the programs that a test process starts under wine: kernel32 and sockets, and nothing else."""

import atexit
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from edgepack_windows.wine import find_libraries, wine_program

LIBRARIES = ("ntdll", "kernel32", "kernelbase", "ws2_32", "ucrtbase")


def under_wine(program: Path) -> list[str]:
    """What a program's command line begins with; the process is the program's own, so that it can be killed and measured."""
    folder, wine = _windows(), wine_program()
    assert wine is not None
    return ["env", *_variables(folder), str(wine), str(program)]


def _variables(folder: Path) -> list[str]:
    places = [f"WINEPREFIX={folder}", f"TMPDIR={folder}"]
    return [*places, "WINEDEBUG=-all", "WINEDLLOVERRIDES=wineboot.exe=d", "LC_ALL=C.UTF-8"]


@cache
def _windows() -> Path:
    """As ``run_under_wine.sh`` lays one, for all programs of this process."""
    wine = wine_program()
    assert wine is not None
    libraries = find_libraries(wine)
    assert libraries is not None
    folder = Path(tempfile.mkdtemp(prefix="edgepack-wine-"))
    system = folder / "drive_c/windows/system32"
    system.mkdir(parents=True)
    (folder / "dosdevices").mkdir()
    (folder / "dosdevices/c:").symlink_to("../drive_c")
    (folder / "dosdevices/z:").symlink_to("/")
    for name in LIBRARIES:
        (system / f"{name}.dll").symlink_to(libraries / f"{name}.dll")

    def end() -> None:
        server = wine.with_name("wineserver")
        if server.is_file():
            variables = {**os.environ, "WINEPREFIX": str(folder)}
            subprocess.run([server, "-k"], env=variables, check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return folder
