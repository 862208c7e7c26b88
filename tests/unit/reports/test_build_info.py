"""When and where a bundle was made, and how to make it again."""

from datetime import datetime

from tests.support.golden import ROOT

from edgepack.records.report import BuildInfo
from edgepack.reports.build_info import command_of, made_now
from edgepack.targets import read_target

MANIFEST = {"model": {"origin": "catalogue:org/model"}, "target": {"name": "linux-x86-min"}}


def test_the_settings_and_the_budget_are_the_targets() -> None:
    file = ROOT / "targets" / "linux-x86-min.toml"
    made = made_now(read_target(file, origin="", overrides=["model.recipe=int4", 'budget.download="5 MB"']))
    assert made.settings == ("model.recipe=int4", 'budget.download="5 MB"')
    assert made.budget == 5_000_000
    assert datetime.fromisoformat(made.at).utcoffset() is not None
    assert "threads, " in made.machine


def test_the_command_has_what_was_said_of_the_model_and_set_of_the_target() -> None:
    assert command_of(MANIFEST, None) == "edgepack bundle --target linux-x86-min org/model"
    said = {
        "pooling": "cls",
        "normalize": False,
        "prompts": {"query": "q: "},
        "treat_as_embedding": True,
        "route": "query",
    }
    manifest = {**MANIFEST, "model": {"origin": "./my model", "set": said}}
    made = BuildInfo(at="", machine="", settings=("model.recipe=int4",))
    assert command_of(manifest, made) == (
        "edgepack bundle --target linux-x86-min --pooling cls --no-normalize --prompt 'query=q: ' --treat-as-embedding --route query "
        "--set model.recipe=int4 './my model'"
    )
