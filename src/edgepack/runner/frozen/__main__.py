"""Where the frozen program starts."""

from __future__ import annotations

import os
import sys

from .base.signals import die_quietly
from .cli import frozen_directory, main

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def start(directory: str | None = None) -> NoReturn:
    """Run for the bundle that the program lies in, and end the process."""
    die_quietly()
    try:
        code = main(sys.argv[1:], directory or frozen_directory(), program=os.path.basename(sys.argv[0]))
    except SystemExit as end:
        code = int(end.code or 0)
    # Everything is written; taking the interpreter and the model apart would only take time.
    os._exit(code)
