"""Files of a model for which a disk has little and of which days would be read."""

from pathlib import Path

import pytest

from edgepack.errors import ModelError
from edgepack.files import store
from edgepack.models.find.digests import digests_of


def test_a_file_of_holes_and_one_under_many_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clone of 300 MB whose 3,000 tensors are links to one file stood for 900 GB."""
    weights = tmp_path / "w.bin"
    weights.write_bytes(bytes(100))
    names = [tmp_path / f"w{number}.bin" for number in range(3)]
    for name in names:
        name.symlink_to(weights.name)
    assert len({each.sha256 for each in digests_of([weights, *names], directory=tmp_path)}) == 1
    monkeypatch.setattr(store, "AGAIN", 200)
    with pytest.raises(ModelError, match=r"w2\.bin has 0\.0 GB: many names are of that file"):
        digests_of([weights, *names], directory=tmp_path)
    with (tmp_path / "holes.bin").open("wb") as stream:
        stream.truncate(2 * store.LARGE)
    with pytest.raises(ModelError, match=r"holes\.bin has 2\.1 GB: nearly all of it was never written"):
        digests_of([tmp_path / "holes.bin"], directory=tmp_path)
