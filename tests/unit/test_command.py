"""That the command's processes which begin with its modules imported are like those which a user starts."""

from pathlib import Path

import pytest
from tests.support import command
from tests.support.command import edgepack

pytestmark = pytest.mark.tools("python")


def both(monkeypatch: pytest.MonkeyPatch, *words: str, **how: object) -> tuple[object, object]:
    """What each says and ends with."""
    found = []
    for preload in (True, False):
        monkeypatch.setattr(command, "preload", preload)
        done = edgepack(*words, **how)  # type: ignore[arg-type]
        found.append((done.returncode, done.stdout, done.stderr))
    return found[0], found[1]


@pytest.mark.parametrize(
    ("words", "code"),
    [(("cache", "where"), 0), (("bundle", "-t", "sparc64"), 3), (("verify", "nothing-here"), 17), ((), 2)],
)
def test_they_say_the_same_and_end_alike(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...], code: int
) -> None:
    env = {"EDGEPACK_CACHE": str(tmp_path / "ü"), "COLUMNS": "70"}
    preloaded, own = both(monkeypatch, *words, env=env, cwd=tmp_path)
    assert preloaded == own
    assert isinstance(own, tuple) and own[0] == code


def test_a_variable_that_python_reads_at_its_start_gets_a_process_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "preload", True)
    (tmp_path / "edgepack.py").write_text("print('another')")
    assert edgepack(env={"PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"}).stdout == "another\n"
    assert "another" not in edgepack("--version").stdout
