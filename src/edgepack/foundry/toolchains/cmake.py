"""What CMake is given of a toolchain."""

import platform
import shlex
from collections.abc import Sequence
from pathlib import Path


def compiler_script(path: Path, command: Sequence[str | Path]) -> str:
    """Write a program that is this command: CMake takes a compiler for one file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, command))} "$@"\n')
    path.chmod(0o755)
    return str(path)


def cross_compiling(arch: str) -> dict[str, str]:
    """CMake's words for another architecture of Linux; nothing for this machine's own."""
    if arch == platform.machine():
        return {}
    return {"CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": arch}
