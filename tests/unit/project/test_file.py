"""The project file."""

from pathlib import Path

import pytest

from edgepack.errors import UsageError
from edgepack.project.file import find_project
from edgepack.project.matrix import cells_of

PROJECT = """
plugins = ["kiosk"]
[[bundle]]
model = "models/mine"
targets = ["linux-x86-min", "targets/own.toml"]
pooling = "cls"
prompts = { query = "q: " }
settings = { "model.min_cosine" = 0.99 }
[[bundle]]
model = "hf:org/name"
targets = ["web-wasm"]
output = "/srv/out"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_paths_are_relative_to_the_file(here: Path) -> None:
    (here / "models" / "mine").mkdir(parents=True)
    (here / "edgepack.toml").write_text(PROJECT)
    first, second = find_project().bundles
    assert first.model == str(here / "models/mine")
    assert first.targets == ("linux-x86-min", str(here / "targets/own.toml"))
    assert first.output == str(here / "dist")
    assert (first.reading.pooling, first.reading.prompts) == ("cls", {"query": "q: "})
    assert first.settings == {"model.min_cosine": 0.99}
    assert (second.model, second.output) == ("hf:org/name", "/srv/out")


def test_pyproject_will_do_and_edgepack_toml_goes_before_it(here: Path) -> None:
    (here / "pyproject.toml").write_text('[tool.edgepack]\n[[tool.edgepack.bundle]]\ntargets = ["a"]\n')
    assert find_project().bundles[0].targets == ("a",)
    (here / "edgepack.toml").write_text('plugins = ["x"]\n')
    assert find_project().file.name == "pyproject.toml", "a file without bundles names no project"
    (here / "edgepack.toml").write_text('[[bundle]]\ntargets = ["b"]\n')
    assert find_project().bundles[0].targets == ("b",)
    assert find_project(here / "pyproject.toml").bundles[0].targets == ("a",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[bundle]]\n", r"bundle\[0\]\.targets is missing"),
        ('[[bundle]]\ntargets = "a"\n', r"bundle\[0\]\.targets is 'a', expected a list"),
        (
            '[[bundle]]\ntargets = ["a"]\nmodle = "x"\n',
            r"unknown key \[bundle\[0\]\] modle \(did you mean model",
        ),
        ('[[bundle]]\ntargets = ["a"]\npooling = "median"\n', "is 'median'"),
        ("[[bundle]\n", "not valid TOML"),
        ('[[bundle]]\ntargets = ["a"]\nmodels = ["~nobody-of-that-name/*"]\n', "a path that cannot be one"),
        ('[[bundle]]\ntargets = ["a"]\nmodels = ["***"]\n', "a path that cannot be one"),
        (f'[[bundle]]\ntargets = ["a"]\nmodel = "{"a" * 300}"\n', "a path that cannot be one"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, message: str, here: Path) -> None:
    (here / "edgepack.toml").write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        find_project()
    assert caught.value.hint


def test_without_a_project_a_hint_shows_one(here: Path) -> None:
    with pytest.raises(UsageError, match="there is no project here") as caught:
        find_project()
    assert "[[bundle]]" in str(caught.value.hint)
    with pytest.raises(UsageError, match=r"none\.toml cannot be read"):
        find_project(here / "none.toml")


def test_some_can_be_chosen_by_model_target_or_both(here: Path) -> None:
    (here / "edgepack.toml").write_text(PROJECT)
    project = find_project()
    labels = [cell.label for cell in cells_of(project)]
    assert labels == ["mine:linux-x86-min", "mine:own", "name:web-wasm"]
    with pytest.raises(UsageError, match=r"makes no web-wsam \(did you mean web-wasm"):
        cells_of(project, ["web-wsam"])


def test_a_pyproject_whose_tool_is_no_table(here: Path) -> None:
    (here / "pyproject.toml").write_text("tool = 3\n")
    with pytest.raises(UsageError, match="tool is 3, expected a table"):
        find_project(here / "pyproject.toml")
