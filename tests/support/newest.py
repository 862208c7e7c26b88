"""The newest onnx and ONNX Runtime, beside those that edgepack uses: what today's exporters need, and the judge of what they write.

Kept in the user's cache, 110 MB unpacked; fetched by pip at the first use. Tests that use them are behind ``--slow``.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgepack.files.store import default_root
from edgepack.tools import run_tool

PACKAGES = ("onnx==1.23.2", "onnxruntime==1.32.0")
ROOT = Path(__file__).parents[2]

RUN = """
import sys, numpy, onnxruntime
onnxruntime.set_default_logger_severity(4)
session = onnxruntime.InferenceSession(sys.argv[1])
names = [each.name for each in session.get_inputs()]
given = numpy.load(sys.argv[2])
rows = [session.run(None, {name: given[f"{at}.{name}"] for name in names})[0] for at in range(int(sys.argv[4]))]
numpy.savez(sys.argv[3], *rows)
"""
EVALUATE = """
import sys, numpy, onnx
from onnx.reference import ReferenceEvaluator
session = ReferenceEvaluator(sys.argv[1])
given = numpy.load(sys.argv[2])
rows = [session.run(None, {name: given[f"{at}.{name}"] for name in session.input_names})[0]
        for at in range(int(sys.argv[4]))]
numpy.savez(sys.argv[3], *rows)
"""


def fetched(name: str, packages: Sequence[str], *, dependencies: bool = False) -> Path:
    """Packages, without their dependencies or with them, as a folder to put on ``PYTHONPATH``."""
    digest = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:16]
    folder = default_root() / "test-tools" / f"{name}-{digest}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(beside)]
        run_tool([*pip, *([] if dependencies else ["--no-deps"]), *packages])
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder


def with_newest(arguments: Sequence[str]) -> str:
    """What Python says with those packages in place of edgepack's."""
    env = {**os.environ, "PYTHONPATH": f"{fetched('newest', PACKAGES)}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, *arguments], env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def judged(
    file: Path, feeds: Sequence[Mapping[str, np.ndarray]], folder: Path, *, program: str = RUN
) -> list[Any]:
    """The first output for each of the feeds, by the newest ONNX Runtime, or by onnx's own evaluator (``EVALUATE``)."""
    given, found = folder / "given.npz", folder / "found.npz"
    values: dict[str, Any] = {
        f"{at}.{name}": value for at, feed in enumerate(feeds) for name, value in feed.items()
    }
    np.savez(given, **values)
    with_newest(["-c", program, str(file), str(given), str(found), str(len(feeds))])
    with np.load(found) as rows:
        return [rows[f"arr_{at}"] for at in range(len(feeds))]
