"""Models by targets by recipes, and parts of them."""

from pathlib import Path

import pytest

from edgepack.errors import UsageError
from edgepack.project.file import Project, find_project
from edgepack.project.matrix import cells_of

PROJECT = """
store = "store"
[[bundle]]
models = ["models/*", "hf:org/name"]
targets = ["linux-x86-min", "web-wasm"]
recipes = ["int8", "fp16"]
[[bundle]]
model = "own"
targets = ["web-wasm"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    for name in ("a", "b"):
        (tmp_path / "models" / name).mkdir(parents=True)
    (tmp_path / "edgepack.toml").write_text(PROJECT)
    return find_project(tmp_path / "edgepack.toml")


def test_each_model_for_each_target_by_each_recipe(project: Project, tmp_path: Path) -> None:
    cells = cells_of(project)
    assert len(cells) == 3 * 2 * 2 + 1
    first = cells[0]
    assert first.label == "a:linux-x86-min:int8"
    assert first.wanted.model == str(tmp_path / "models/a")
    assert (first.wanted.recipe, first.wanted.output) == ("int8", str(tmp_path / "dist/int8"))
    assert cells[-1].label == "own:web-wasm"
    assert project.store == str(tmp_path / "store")
    assert len({(cell.label, cell.wanted.output) for cell in cells}) == len(cells)


def test_a_recipe_selects_too(project: Project) -> None:
    assert {cell.label for cell in cells_of(project, ["a:web-wasm:fp16", "own"])} == {
        "a:web-wasm:fp16",
        "own:web-wasm",
    }
    assert len(cells_of(project, ["fp16"])) == 6


@pytest.mark.parametrize("parts", [1, 2, 3, 8, 13, 20])
def test_parts_are_the_whole_once_and_of_one_size(project: Project, parts: int) -> None:
    cells = [cells_of(project, shard=f"{number}/{parts}") for number in range(1, parts + 1)]
    labels = [cell.label for part in cells for cell in part]
    assert sorted(labels) == sorted(cell.label for cell in cells_of(project))
    sizes = {len(part) for part in cells}
    assert max(sizes) - min(sizes) <= 1


def test_a_part_has_few_targets(project: Project) -> None:
    targets = [{cell.target for cell in cells_of(project, shard=f"{number}/2")} for number in (1, 2)]
    assert targets == [{"linux-x86-min"}, {"web-wasm"}]


@pytest.mark.parametrize("shard", ["3", "0/2", "3/2", "a/b", "1/0", "-1/2", "1/2/3"])
def test_what_is_no_part_is_refused(project: Project, shard: str) -> None:
    with pytest.raises(UsageError, match="is no part of a whole") as caught:
        cells_of(project, shard=shard)
    assert "third of eight" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ('model = "a"\nmodels = ["b"]', "both model and models"),
        ('recipe = "int8"\nrecipes = ["fp16"]', "both recipe and recipes"),
        ('models = ["nothing/*"]', "nothing at models = 'nothing/\\*'"),
    ],
)
def test_what_says_two_things_or_nothing_is_refused(said: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "edgepack.toml").write_text(f'[[bundle]]\ntargets = ["web-wasm"]\n{said}\n')
    with pytest.raises(UsageError, match=message) as caught:
        find_project(tmp_path / "edgepack.toml")
    assert caught.value.hint
