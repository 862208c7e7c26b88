"""A fetched model is kept under what this edition reads of it: what an earlier one has fetched may lack a file."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from edgepack.models.find.remote import ingest_remote
from edgepack.records.model import RemoteModel


class Asked(Exception):  # noqa: N818
    """What the store was asked for."""


@pytest.mark.parametrize("files", [("config.json", "special_tokens_map.json"), ("model.zip",)])
def test_the_documents_that_are_read_are_in_the_key(
    files: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cached(kind: str, inputs: Mapping[str, str], make: object) -> None:
        raise Asked(kind, dict(inputs))

    def key() -> Any:
        remote = RemoteModel(name="a", origin="a", pins={"commit": "1"}, files=files, fetch=lambda *_: None)
        context: Any = SimpleNamespace(store=SimpleNamespace(cached=cached))
        with pytest.raises(Asked) as asked:
            ingest_remote(remote, context=context)
        return asked.value.args

    before = key()
    assert before[0] == "models" and before[1]["commit"] == "1"
    monkeypatch.setattr("edgepack.models.read.hub_layout.DESCRIPTIONS", frozenset())
    monkeypatch.setattr("edgepack.models.read.hub_layout.OLDER_SETTINGS", ())
    assert key() != before
