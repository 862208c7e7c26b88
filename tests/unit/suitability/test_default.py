"""What a bundle is made for where no target is named."""

import platform
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.checkpoints import write_head
from tests.support.families import write_family
from tests.support.static_models import write_module

from edgepack.errors import EdgepackError, ModelError, TargetError, UsageError
from edgepack.plugins.context import HostContext
from edgepack.records.target import UNSAID
from edgepack.suitability.default import Chosen, choose_target

Choose = Callable[..., Chosen]


@pytest.fixture
def choose(context: HostContext, monkeypatch: pytest.MonkeyPatch) -> Choose:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")

    def chosen(model: Path, *overrides: str) -> Chosen:
        return choose_target(str(model), overrides, UNSAID, context=context)

    return chosen


def test_each_model_gets_the_best_that_takes_it(choose: Choose, tmp_path: Path) -> None:
    write_family(tmp_path / "bert", "bert", hidden_size=64, intermediate_size=128)
    write_module(tmp_path / "static")
    found = {name: choose(tmp_path / name) for name in ("bert", "static")}
    assert {name: each.target.name for name, each in found.items()} == {
        "bert": "linux-x86-fast",
        "static": "linux-x86-static",
    }


def test_a_model_of_which_the_order_counts_gets_the_recipe_that_keeps_it(
    choose: Choose, tmp_path: Path
) -> None:
    model = write_head(tmp_path / "reranker", "BertForSequenceClassification", num_labels=1)
    found = choose(model)
    assert found.target.name == "linux-x86-min"
    assert "linux-x86-fast: the order of what a reranker gives takes recipe int8-near" in found.why
    assert choose(model, "model.recipe=int8").target.name == "linux-x86-fast"


def test_what_is_set_decides_too(choose: Choose, tmp_path: Path) -> None:
    write_family(tmp_path / "bert", "bert", hidden_size=64, intermediate_size=128)
    assert choose(tmp_path / "bert").target.model.recipe == "int8-download"
    said = choose(tmp_path / "bert", "model.recipe=int8").target
    assert (said.model.recipe, said.settings) == ("int8", ("model.recipe=int8",))
    assert choose(tmp_path / "bert", "runtime=full").target.name == "linux-x86-min"
    assert choose(tmp_path / "bert", "attention=float").target.name == "linux-x86-fast"


def test_settings_that_none_takes_are_refused_before_a_model_is_looked_for(
    choose: Choose, tmp_path: Path
) -> None:
    with pytest.raises(EdgepackError, match="int3"):
        choose(tmp_path / "nothing", "model.recipe=int3")
    with pytest.raises(TargetError, match="no_such_option"):
        choose(tmp_path / "nothing", "no_such_option=1")


def test_what_cannot_be_had_is_an_error(
    choose: Choose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelError):
        choose(tmp_path / "nothing")
    monkeypatch.setattr(platform, "machine", lambda: "s390x")
    with pytest.raises(UsageError, match="s390x"):
        choose(tmp_path / "nothing")
