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
def context(kept_context: HostContext) -> HostContext:
    return kept_context


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
        ("linux-x86-fast", "int8-tiny"),
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


def test_what_no_recipe_helps_is_said_and_not_that_it_is_too_large(
    within: Within, model: Path, context: HostContext
) -> None:
    with pytest.raises(
        EdgepackError, match=r"no recipe that --budget tries will do: .*is not a static model"
    ):
        within(100, target="linux-x86-static")


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
        ([too_large(9)] * 2, "the archive has 9 bytes, by the smallest recipe that --budget tries"),
        ([BudgetError("memory")], "memory"),
        ([VerificationError("too far")], "too far"),
    ],
)  # fmt: skip
def test_the_first_bundle_that_keeps_the_budget_is_made(
    outcomes: list[Any], made: str, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(outcomes)
    targets = [
        context.plugins().target("linux-x86-fast", (f"model.recipe={recipe}",))
        for recipe in ("int8", "int8-download")
    ]

    def build(target: Target, **_: Any) -> str:
        outcome = next(left)
        if isinstance(outcome, Exception):
            raise outcome
        return str(target.model.recipe)

    monkeypatch.setattr(pipeline, "build", build)
    monkeypatch.setattr(pipeline, "targets_within", lambda *_, **__: iter(targets))

    def chosen() -> Any:
        return pipeline.build_chosen("linux-x86-fast", (), UNSAID, model="m", budget=10**9, context=context)

    if outcomes[-1] == "made":
        assert chosen() == made
    else:
        with pytest.raises(EdgepackError) as refused:
            chosen()
        assert refused.value.message == made
        if "bytes" in made:
            assert refused.value.hint == '--budget "1 MB"'
    assert next(left, None) is None


def test_each_recipe_of_the_ladder_has_the_one_before_it_as_the_nearer() -> None:
    assert [nearer(recipe) for recipe in LADDER] == [None, *LADDER[:-1]]
    assert set(BESIDE.values()) <= set(LADDER)
    assert nearer("int4") == "int8"
    assert nearer("of-a-plugin") is None
