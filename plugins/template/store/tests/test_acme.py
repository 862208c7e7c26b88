"""What is put into the store comes back."""

from pathlib import Path

import pytest
from edgepack_acme import open_store

from edgepack import api


def test_a_file_comes_back(tmp_path: Path) -> None:
    store = open_store(f"acme://{tmp_path}/store")
    place = tmp_path / "file"
    assert not store.has("a/b")
    assert not store.get("a/b", place)
    for text in ("first", "second"):
        place.write_text(text)
        store.put("a/b", place)
        assert store.get("a/b", tmp_path / "back")
        assert (tmp_path / "back").read_text() == text


def test_an_address_without_a_folder_is_refused() -> None:
    with pytest.raises(api.UsageError):
        open_store("acme://")
