"""A model that lies elsewhere: the key that it is kept under, and the limits of what is fetched of it."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgepack.errors import DownloadError, ModelError
from edgepack.models.find import remote
from edgepack.models.find.remote import find_remote, ingest_remote
from edgepack.models.read import hub_layout
from edgepack.records.model import RemoteModel


class Asked(Exception):  # noqa: N818
    """What the store was asked for."""


def test_a_model_s_files_have_a_number_and_a_time_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with minutes of its own, thousands held a command for days."""
    clock = [0.0]

    def fetch(name: str, destination: Path) -> None:
        destination.write_bytes(b"1" * int(name))
        clock[0] += 290

    def found() -> RemoteModel:
        model = RemoteModel(name="a", origin="here:a", pins={"a": "1"}, files=("1",), fetch=fetch)
        source = SimpleNamespace(identity="", make=lambda: SimpleNamespace(find=lambda *_, context: model))
        context: Any = SimpleNamespace(extensions=lambda _: {"here": source})
        made = find_remote("here:a", context=context)
        assert made is not None
        return made

    monkeypatch.setattr(remote, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    slow, steady, many = found(), found(), found()
    for _ in range(5):
        slow.fetch("1", tmp_path / "a")
    with pytest.raises(DownloadError, match=r"here:a is too slow: 5 files of 5 bytes in 1450 s"):
        slow.fetch("1", tmp_path / "a")
    for _ in range(10):
        steady.fetch(f"{290 * 256}", tmp_path / "a")
    monkeypatch.setattr(hub_layout, "MOST_FILES", 3)
    for _ in range(3):
        many.fetch("1", tmp_path / "a")
    with pytest.raises(ModelError, match="here:a has more than 3 files"):
        many.fetch("1", tmp_path / "a")


@pytest.mark.parametrize("files", [("config.json", "special_tokens_map.json"), ("model.zip",)])
def test_the_documents_that_are_read_are_in_the_key(
    files: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cached(kind: str, inputs: Mapping[str, str], make: object) -> None:
        raise Asked(kind, dict(inputs))

    def key() -> Any:
        found = RemoteModel(name="a", origin="a", pins={"commit": "1"}, files=files, fetch=lambda *_: None)
        context: Any = SimpleNamespace(store=SimpleNamespace(cached=cached))
        with pytest.raises(Asked) as asked:
            ingest_remote(found, context=context)
        return asked.value.args

    before = key()
    assert before[0] == "models" and before[1]["commit"] == "1"
    monkeypatch.setattr("edgepack.models.read.hub_layout.DESCRIPTIONS", frozenset())
    monkeypatch.setattr("edgepack.models.read.hub_layout.OLDER_SETTINGS", ())
    assert key() != before
