"""A budget of bytes to download: the recipe nearest to full precision that keeps it."""

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.families import write_family

from edgepack import pipeline
from edgepack.errors import BudgetError, EdgepackError, UsageError, VerificationError
from edgepack.models.find.source import ingest
from edgepack.plugins.context import HostContext
from edgepack.recipes.expected import expected
from edgepack.recipes.registry import passes_of
from edgepack.records.ladder import BESIDE, LADDER, nearer
from edgepack.records.target import UNSAID, Target
from edgepack.suitability.budget import targets_within

Within = Callable[..., list[tuple[str, str]]]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_family(tmp_path / "bert", "bert", hidden_size=64, intermediate_size=128)
    return tmp_path / "bert"


@pytest.fixture
def within(context: HostContext, model: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")

    def found(budget: int, *overrides: str, target: str | None = None) -> list[tuple[str, str]]:
        targets = targets_within(budget, target, str(model), overrides, UNSAID, context=context)
        return [(each.name, str(each.model.recipe)) for each in targets]

    return found


def test_the_nearest_to_full_precision_comes_first_for_the_first_target_that_takes_it(within: Within) -> None:
    assert within(10**9) == [
        ("linux-x86-min", "fp32"),
        ("linux-x86-min", "fp16"),
        ("linux-x86-min", "int8-near"),
        ("linux-x86-min", "int8-weights"),
        ("linux-x86-fast", "int8"),
        ("linux-x86-fast", "int8-download"),
        ("linux-x86-fast", "int8-compact"),
        ("linux-x86-fast", "int8-smallest"),
    ]


def test_what_is_foretold_to_be_too_large_is_not_tried(
    within: Within, model: Path, context: HostContext
) -> None:
    foretold = expected(ingest(str(model), context=context), passes_of("int8", context))
    assert foretold is not None
    assert {recipe for _, recipe in within(foretold.least)} == set(LADDER) - {"fp32", "fp16"}
    with pytest.raises(
        BudgetError, match=r"the model alone has by this recipe about 0\.0 MB, target linux-x86"
    ):
        within(100)


def test_a_recipe_besides_is_refused(within: Within) -> None:
    with pytest.raises(UsageError, match="--budget chooses the recipe"):
        within(10**9, "model.recipe=int8")


def too_large(size: int) -> BudgetError:
    error = BudgetError(f"the archive has {size} bytes")
    error.download = size
    return error


@pytest.mark.parametrize(
    ("outcomes", "made"),
    [
        ([too_large(3_000_000), "made"], "int8-download"),
        (["made"], "int8"),
        ([too_large(9), VerificationError("too far")], "the archive has 9 bytes; with recipe int8-download, too far"),
        ([too_large(9)] * 4, "the archive has 9 bytes, and no recipe makes less"),
        ([BudgetError("memory")], "memory"),
        ([VerificationError("too far")], "too far"),
    ],
)  # fmt: skip
def test_the_first_bundle_that_keeps_the_budget_is_made(
    outcomes: list[Any], made: str, model: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    left = iter(outcomes)

    def build(target: Target, **_: Any) -> str:
        outcome = next(left)
        if isinstance(outcome, Exception):
            raise outcome
        return str(target.model.recipe)

    monkeypatch.setattr(pipeline, "build", build)

    def chosen() -> Any:
        return pipeline.build_chosen(
            "linux-x86-fast", (), UNSAID, model=str(model), budget=10**9, context=context
        )

    if outcomes[-1] == "made":
        assert chosen() == made
    else:
        with pytest.raises(EdgepackError) as refused:
            chosen()
        assert refused.value.message == made
    assert next(left, None) is None


def test_each_recipe_of_the_ladder_has_the_one_before_it_as_the_nearer() -> None:
    assert [nearer(recipe) for recipe in LADDER] == [None, *LADDER[:-1]]
    assert set(BESIDE.values()) <= set(LADDER)
    assert nearer("int4") == "int8"
    assert nearer("of-a-plugin") is None
