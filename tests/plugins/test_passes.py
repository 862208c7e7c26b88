"""Passes and recipes of plugins: used by every command as edgepack's own are, made anew when they change."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import pytest
from tests.support.berts import write_bert

from edgepack.console import Story
from edgepack.errors import EdgepackError, PluginError, TargetError
from edgepack.files.store import Store
from edgepack.plugins.context import HostContext, host_context
from edgepack.plugins.host import load_plugins
from edgepack.recipes.prepare import prepare_model
from edgepack.recipes.registry import passes_of, whose_passes
from edgepack.recipes.search import named_candidates
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.target import ModelOptions, Pass

PLUGIN = """
from edgepack import api

def stamp(model, note, material, *, text: str = "plain", times: int = 1):
    "The model with a text in it."
    model.producer_name = " ".join([text] * times + [material.source.name])
    note("stamped")
    return model

@api.hookimpl
def edgepack_specs():
    return [
        api.Spec(axis="pass", name="stamp", summary="stamps", make=lambda: stamp, revision="1"),
        api.Spec(
            axis="recipe",
            name="stamped",
            summary="full precision, stamped",
            make=lambda: [{"pass": "fuse"}, {"pass": "stamp", "text": "blue"}],
        ),
    ]
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs the plugin, or another version of it in its place."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(*changes: tuple[str, str]) -> None:
        code = PLUGIN
        for old, new in changes:
            assert old in code, old
            code = code.replace(old, new)
        (tmp_path / "edgepack_stamp.py").write_text(code)
        info = tmp_path / "edgepack_stamp-1.2.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: edgepack-stamp\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text("[edgepack]\nstamp = edgepack_stamp\n")
        monkeypatch.delitem(sys.modules, "edgepack_stamp", raising=False)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)

    return write


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> ModelSource:
    return write_bert(tmp_path_factory.mktemp("models") / "tiny")[0]


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Callable[[], HostContext]]:
    """Contexts that share a store and ask the plugins anew."""
    store = Store(root=tmp_path / "store")
    with host_context(story=Story(quiet=True), offline=True, store=store) as made:

        def again() -> HostContext:
            return HostContext(
                work_dir=made.work_dir, offline=True, store=store, story=made.story, plugins=load_plugins
            )

        yield again


def prepared(source: ModelSource, recipe: str | tuple[Pass, ...], context: HostContext) -> PreparedModel:
    return prepare_model(source, options=ModelOptions(recipe=recipe, format="onnx"), context=context)


def stamped(model: PreparedModel) -> str:
    return str(onnx.load(str(model.file)).producer_name)


def test_a_plugins_recipe_is_one_by_name_and_its_pass_one_in_a_list(
    install: Install, source: ModelSource, fresh: Callable[[], HostContext]
) -> None:
    install()
    made = prepared(source, "stamped", fresh())
    assert stamped(made) == "blue test/random-bert"
    assert made.recipe == 'pool, fuse, stamp(text="blue")'
    steps = (Pass(name="stamp", parameters={"times": 2}),)
    assert stamped(prepared(source, steps, fresh())) == "plain plain test/random-bert"
    assert "stamped" in [each.name for each in named_candidates((), fresh())]


@pytest.mark.slow
def test_the_manifest_says_whose_a_pass_is(install: Install, fresh: Callable[[], HostContext]) -> None:
    install()
    context = fresh()
    assert whose_passes(passes_of("stamped", context), context) == {
        "passes": {"stamp": "edgepack-stamp 1.2, revision 1"}
    }
    assert whose_passes(passes_of("int8", context), context) == {}


@pytest.mark.slow
@pytest.mark.parametrize("change", [('revision="1"', 'revision="2"'), ("plain", "plain")])
def test_a_changed_pass_makes_the_model_anew_when_its_revision_says_so(
    install: Install, source: ModelSource, fresh: Callable[[], HostContext], change: tuple[str, str]
) -> None:
    install()
    first = prepared(source, "stamped", fresh())
    install(change, ("model.producer_name = ", "model.producer_name = 'new ' + "))
    again = prepared(source, "stamped", fresh())
    assert stamped(again) == (
        "new blue test/random-bert" if change[0] != change[1] else "blue test/random-bert"
    )
    assert (again.file == first.file) == (change[0] == change[1])


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ([('    note("stamped")', "    1 / 0")], PluginError, "plugin stamp failed in pass stamp: ZeroDivisionError"),
        ([("    return model", "    return None")], PluginError, "plugin stamp: pass stamp returned None, expected an onnx.ModelProto"),
        ([("make=lambda: stamp", "make=lambda: 1 / 0")], PluginError, "plugin stamp failed in make of pass stamp: ZeroDivisionError"),
        ([("make=lambda: stamp", "make=lambda: None")], PluginError, "plugin stamp: make of pass stamp returned None, expected a function"),
        ([("model, note, material, *, text: str =", "model, note, material, *, text =")], PluginError, "plugin stamp failed in pass stamp: KeyError: 'text'"),
        ([('[{"pass": "fuse"}', '[1 / 0, {"pass": "fuse"}')], PluginError, "plugin stamp failed in make of recipe stamped: ZeroDivisionError"),
        ([('{"pass": "fuse"}', '"fuse"')], PluginError, "plugin stamp: recipe stamped returned a list with 'fuse', expected tables"),
        ([("make=lambda: [", "make=lambda: 42 or [")], PluginError, "plugin stamp: recipe stamped returned 42, expected a list of tables"),
        ([('{"pass": "fuse"}', '{"pass": "fuze"}')], TargetError, "there is no pass 'fuze' .did you mean fuse"),
        ([('"text": "blue"', '"text": 5')], TargetError, "pass stamp: text is 5, expected a str"),
        ([('"text": "blue"', '"texts": "blue"')], TargetError, "pass stamp has no parameter 'texts' .did you mean text"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_pass_is_said_with_its_name(
    install: Install,
    source: ModelSource,
    fresh: Callable[[], HostContext],
    changes: list[tuple[str, str]],
    error: type[EdgepackError],
    words: str,
) -> None:
    install(*changes)
    with pytest.raises(error, match=words):
        prepared(source, "stamped", fresh())


@pytest.mark.parametrize("name", ["int4", "int8"])
def test_a_name_of_ours_is_refused(install: Install, name: str) -> None:
    axis = "stamp" if name == "int4" else "stamped"
    install((f'name="{axis}"', f'name="{name}"'))
    (info,) = [plugin for plugin in load_plugins().plugins if plugin.name == "stamp"]
    assert f"{'pass' if name == 'int4' else 'recipe'} {name} is registered already" in info.error
