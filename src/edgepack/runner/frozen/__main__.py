"""Where the frozen program starts."""

from __future__ import annotations

import os
import sys

from .host import run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def start(directory: str | None = None) -> NoReturn:
    """Run for the bundle that the program lies in, and end the process."""
    # The program's answers are written by C++: what a user's module prints is none of them.
    sys.stdout = sys.stderr
    code = run(directory or frozen_directory(), sys.argv)
    # Everything is written; taking the interpreter and the model apart would only take time.
    os._exit(code)


def frozen_directory() -> str:
    """The bundle's folder: that of the program itself, through symbolic links, wherever it was started from."""
    return os.path.dirname(os.path.realpath(str(vars(sys)["_MEIPASS"])))
