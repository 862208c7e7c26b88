"""Another edition of edgepack, of the same version, does not take what an earlier one has made."""

from pathlib import Path

import pytest

from edgepack.files import store
from edgepack.files.store import digest_of_code


def test_each_file_counts_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_OWN", tmp_path)
    (tmp_path / "models/read").mkdir(parents=True)
    (tmp_path / "other").mkdir()

    def digest() -> str:
        digest_of_code.cache_clear()
        return digest_of_code("models")

    seen = [digest()]
    for change in (
        lambda: (tmp_path / "models/a.py").write_text("1"),
        lambda: (tmp_path / "models/read/b.py").write_text("1"),
        lambda: (tmp_path / "models/a.py").write_text("2"),
        lambda: (tmp_path / "models/a.py").rename(tmp_path / "models/c.py"),
        lambda: (tmp_path / "models/read/texts.txt").write_text("calibrated on"),
    ):
        change()
        seen.append(digest())
    (tmp_path / "other/d.py").write_text("1")
    (tmp_path / "models/a.pyc").write_text("1")
    assert digest() == seen[-1] and len({*seen}) == 6
    # A plugin's package, by the name that it is imported by.
    (tmp_path / "elsewhere/acme_nomic").mkdir(parents=True)
    (tmp_path / "elsewhere/acme_nomic/__init__.py").write_text("1")
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")
    assert digest_of_code("models") == digest_of_code("models", "") != digest_of_code("models", "acme_nomic")
    digest_of_code.cache_clear()
