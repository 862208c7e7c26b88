"""What docs/howto/integrations.md puts into SQLite, read by sqlite-vec."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sqlite_vec
from tests.support.golden import ROOT
from tests.support.sample_program import run_program, vectors_of
from tests.unit.runner.test_integrations import TEXTS, code

pytestmark = pytest.mark.tools("c++", "python")


@pytest.fixture(scope="module")
def my_model(native_sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, as pip lays it."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "plugins/edgepack_wheel/module", folder / "my_model")
    (folder / "my_model/bundle").symlink_to(native_sample)
    return folder


def python_with_extensions() -> str:
    """A Python whose SQLite loads extensions; those of pyenv and of macOS are built without."""
    for python in (sys.executable, "/usr/bin/python3"):
        asked = [python, "-c", "import sqlite3; sqlite3.Connection.enable_load_extension"]
        if Path(python).exists() and subprocess.run(asked, capture_output=True, check=False).returncode == 0:
            return python
    pytest.skip("no Python here loads extensions of SQLite")


def test_sqlite_vec_reads_what_the_pipe_writes(native_sample: Path, my_model: Path, tmp_path: Path) -> None:
    lines = run_program(native_sample, "--out=jsonl", *TEXTS).stdout
    writer = [sys.executable, "-c", code("sqlite3.connect(sys.argv[1])"), "notes.db"]
    subprocess.run(writer, input=lines, cwd=tmp_path, check=True)
    (tmp_path / "sqlite_vec").symlink_to(Path(sqlite_vec.__file__).parent)
    query = code("vec_distance_cosine").replace("a sleeping cat", "kitten")
    done = subprocess.run(
        [
            python_with_extensions(),
            "-c",
            f"{query}\nprint(*(text for text, _ in nearest), nearest[0][1], sep='|')",
        ],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{my_model}:{tmp_path}"},
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *texts, distance = done.stdout.strip().split("|")
    plain = vectors_of(run_program(native_sample, "kitten", *TEXTS).stdout)
    cosines = np.array(plain[1:]) @ np.array(plain[0])
    assert texts == [TEXTS[at] for at in np.argsort(-cosines)]
    assert float(distance) == pytest.approx(1 - max(cosines), abs=1e-5)
