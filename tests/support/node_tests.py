"""Tests that are written in JavaScript, run by Node's own runner."""

import os
import subprocess
from pathlib import Path

from edgepack_web.npm.node import find_node

HERE = Path(__file__).parents[1] / "js"


def run_node_tests(name: str, **environment: str) -> str:
    """Run ``tests/js/NAME.test.mjs``; what failed is in the assertion's message."""
    done = subprocess.run(
        [
            find_node(),
            "--test",
            "--test-reporter=tap",
            "--test-force-exit",
            "--test-timeout=300000",
            HERE / f"{name}.test.mjs",
        ],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    return done.stdout
