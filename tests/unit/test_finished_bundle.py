"""How a model is read again when its bundle is verified: as was said when it was made here, and never as a stranger says."""

from pathlib import Path
from typing import Any

import pytest

from edgepack.errors import BundleError
from edgepack.finished_bundle import reading_of
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.target import UNSAID, Reading

SET = {"pooling": "cls", "normalize": False, "prompts": {"query": "q: "}}


@pytest.fixture
def made_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgepack.finished_bundle.may_run", lambda bundle, *, asked, context: True)


def bundle(**model: Any) -> Bundle:
    return Bundle(directory=Path("bundle"), manifest={"model": model})


@pytest.mark.usefixtures("made_here")
def test_what_was_set_here_is_set_again(context: HostContext) -> None:
    was = Reading(pooling="cls", normalize=False, prompts={"query": "q: "})
    assert reading_of(bundle(set=SET), context) == was
    assert was.said == SET
    assert reading_of(bundle(), context) == UNSAID
    now = Reading(pooling="mean", prompts={"passage": "p: "}).over(was)
    assert now == Reading(pooling="mean", normalize=False, prompts={"query": "q: ", "passage": "p: "})


@pytest.mark.usefixtures("made_here")
@pytest.mark.parametrize("odd", [{"poolin": "cls"}, {"pooling": "median"}, {"normalize": "no"}, ["cls"]])
def test_what_makes_no_sense_is_said(context: HostContext, odd: Any) -> None:
    with pytest.raises(BundleError, match="the bundle's manifest: "):
        reading_of(bundle(set=odd), context)


def test_what_a_stranger_set_does_not_count(context: HostContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgepack.finished_bundle.may_run", lambda bundle, *, asked, context: asked)
    with context.story.step("model") as step:
        assert reading_of(bundle(set=SET), context) == UNSAID
        assert reading_of(bundle(), context) == UNSAID
    assert step.notes == [
        "the model settings in its manifest are ignored; set them with --pooling, --normalize, --prompt"
    ]
