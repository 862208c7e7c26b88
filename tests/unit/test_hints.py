"""Hints that say what to type: typed, it gets further than what the hint was given for."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests.support.families import write_family
from tests.support.graphs import write_graph_alone
from tests.support.static_models import write_model2vec, write_module
from tests.support.tiny import WORDS, write_json

from edgepack.cli import cli
from edgepack.cli.listed import recipe_rows
from edgepack.errors import EdgepackError
from edgepack.models.find.source import ingest
from edgepack.plugins.context import HostContext
from edgepack.records.figures import Figure
from edgepack.suitability.decide import require_suitable
from edgepack.targets import read_pass

LLAMA = {
    "type": "Sequence",
    "normalizers": [
        {"type": "Prepend", "prepend": "a"},
        {"type": "Replace", "pattern": {"Regex": "b+"}, "content": "c"},
    ],
}


def odd_tokenizer(folder: Path) -> None:
    import json

    write_module(folder)
    document = json.loads((folder / "tokenizer.json").read_text())
    write_json(folder / "tokenizer.json", {**document, "normalizer": LLAMA})


def beyond_half(folder: Path) -> None:
    write_model2vec(folder, {"embeddings": np.full((len(WORDS), 8), 70_000, np.float32)})


def bert(folder: Path) -> None:
    write_family(folder, "bert")


def taken(model: Path, target: str, settings: list[str], context: HostContext) -> EdgepackError | None:
    """What a build refuses the model with before anything is made."""
    host = context.plugins()
    try:
        found = host.target(target, settings)
        require_suitable(
            ingest(str(model), context=context), found, host.create(found, context), context=context
        )
    except EdgepackError as error:
        return error
    return None


def options_in(hint: str) -> tuple[str | None, list[str]]:
    """The first target that a hint names, and its other options as ``--set`` takes them."""
    target = re.search(r"--target ([\w-]+)", hint)
    recipe = re.search(r"--recipe ([\w-]+)", hint)
    settings = [f"model.recipe={recipe[1]}"] if recipe and not target else []
    return (target[1] if target else None), [*settings, *re.findall(r"--set (\S+?)[;,]?(?=\s|$)", hint)]


@pytest.mark.parametrize(
    ("write", "target", "settings"),
    [
        (odd_tokenizer, "linux-x86-static", []),
        (odd_tokenizer, "windows-x64-static", []),
        (beyond_half, "linux-x86-static", []),
        (bert, "linux-x86-fast", ["model.recipe=fp32"]),
        (write_module, "linux-x86-fast", []),
        (write_module, "linux-x86-static", ["model.recipe=int4"]),
    ],
)
def test_options_of_hints_get_further(
    tmp_path: Path, context: HostContext, write: Callable[[Path], Any], target: str, settings: list[str]
) -> None:
    write(tmp_path)
    error = taken(tmp_path, target, settings, context)
    assert error is not None and error.hint
    other, more = options_in(error.hint)
    assert other or more, error.hint
    further = taken(tmp_path, other or target, more if more else ([] if other else settings), context)
    assert further is None or further.message != error.message, error.hint
    if other:
        assert further is None, (error.hint, further)


def test_a_folder_with_a_graph_alone_says_what_to_name(tmp_path: Path, context: HostContext) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    write_graph_alone(folder)
    with pytest.raises(EdgepackError, match=r"has no config\.json") as caught:
        ingest(str(folder), context=context)
    named = re.search(r"graph itself: (\S+),", str(caught.value.hint))
    assert named is not None
    assert ingest(named[1], context=context).onnx == folder / "model.onnx"


def test_a_bundle_is_no_model(tmp_path: Path, context: HostContext) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(EdgepackError, match="is a bundle, not a model") as caught:
        ingest(str(tmp_path), context=context)
    assert "edgepack report" in str(caught.value.hint)


def test_a_wheel_says_what_to_name(tmp_path: Path, context: HostContext) -> None:
    wheel = tmp_path / "some_model-1.2.3-py3-none-any.whl"
    wheel.write_bytes(b"")
    with pytest.raises(EdgepackError) as caught:
        ingest(str(wheel), context=context)
    assert "pypi:some-model==1.2.3" in str(caught.value.hint)


def test_the_gate_names_limits_that_were_missed_with_what_was_measured() -> None:
    from edgepack.verifier.gate import _lowered

    missed = [
        Figure(
            key="neighbour_agreement",
            name="a",
            value=0.8249,
            limit=0.9,
            limited_by="min_agreement",
            unit="share",
        ),
        Figure(key="drawn.mean_cosine", name="b", value=0.98, limit=0.985, limited_by="min_cosine"),
        Figure(key="mean_cosine", name="c", value=0.9812, limit=0.985, limited_by="min_cosine"),
    ]
    assert list(_lowered(missed)) == ["--set model.min_agreement=0.824", "--set model.min_cosine=0.98"]
    assert list(_lowered([*missed, Figure(key="sts", name="d", value=1, limit=0.5)])) == []


def test_recipes_are_listed_as_a_target_file_has_them(context: HostContext) -> None:
    listed = CliRunner().invoke(cli, ["recipes"]).output
    for row in recipe_rows(context.plugins()):
        text = listed[listed.index(f"\n{row['recipe']}") if row["recipe"] != "fp32" else 0 :]
        copied = tomllib.loads("recipe = " + text[text.index("  [") : text.index("\n  ]")] + "\n]")["recipe"]
        found = context.extensions("recipe")[row["recipe"]].make()
        assert [read_pass(each) for each in copied] == [read_pass(each) for each in found]
