"""The tests of ``edgepack_engine``'s kernels and of its session, run with a library that was compiled otherwise."""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
FAILED = 1
"""pytest's exit status where a test failed; a signal's is negative."""


def tried(
    tests: Iterable[str], variable: str, library: Path, *, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """pytest with tests such as ``test_kernels.py::test_norms``, and options among them, up to the first that fails.

    ``variable`` names the library to them. What the library itself writes to standard error stands there.
    """
    names = [f"tests/plugins/engine/{test}" if test.startswith("test_") else test for test in tests]
    options = ("-q", "-x", "-s", "-p", "no:cacheprovider", "-p", "no:faulthandler")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *names],
        cwd=ROOT,
        env={**os.environ, variable: str(library), **(env or {})},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=600,
    )
