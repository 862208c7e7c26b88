"""What the second process of ``--check-reproducible`` is given, so that it finds the files that the first one read."""

from pathlib import Path

import pytest

from edgepack.project.rebuild_check import _absolute, _folder
from edgepack.records.target import ModelOptions, Pass, Platform, Target

PLATFORM = Platform(os="linux", arch="x86_64")


@pytest.mark.parametrize(
    ("corpus", "here"), [("corpus.txt", True), ("/there/corpus.txt", False), ("", False)]
)
def test_a_recipe_with_a_relative_path_is_built_where_that_holds(
    tmp_path: Path, corpus: str, here: bool
) -> None:
    recipe = (Pass(name="prune-vocabulary", parameters={"corpus": corpus}), Pass(recipe="int8"))
    for model in (ModelOptions(recipe=recipe), ModelOptions(score_recipe=recipe)):
        target = Target(name="t", summary="", builder="b", platform=PLATFORM, model=model)
        assert (_folder(target, tmp_path) == Path.cwd()) is here


def test_an_option_that_names_a_file_of_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("team.pub").touch()
    options = {"require_signature": "team.pub", "attention": "float", "version": "1.21"}
    target = Target(
        name="t", summary="", builder="b", platform=PLATFORM, model=ModelOptions(), options=options
    )
    assert _absolute(target).options == {**options, "require_signature": str(tmp_path / "team.pub")}
