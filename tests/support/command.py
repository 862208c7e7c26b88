"""The command as a user runs it, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path


def edgepack(
    *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``edgepack`` with these arguments and keep what it prints."""
    return subprocess.run(
        [sys.executable, "-m", "edgepack", *arguments],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **(env or {})},
        cwd=cwd,
        check=False,
    )
