"""Architectures of plugins: the one that docs/plugins.md shows, against sentence-transformers; and those that are wrong."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.electra import install_electra, write_electra
from tests.support.tiny import write_json

from edgepack.console import Story
from edgepack.errors import ModelError, PluginError, UnsupportedModelError
from edgepack.files.store import Store
from edgepack.models.find.source import ingest
from edgepack.models.inspection import inspect_model
from edgepack.models.reference import exported_model
from edgepack.plugins.context import HostContext, host_context
from edgepack.plugins.host import load_plugins
from edgepack.recipes.prepare import prepare_model
from edgepack.records.target import ModelOptions

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs the plugin of the page, with changes to its code, or another version of it in its place."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(*changes: tuple[str, str]) -> None:
        install_electra(tmp_path, *changes)
        monkeypatch.delitem(sys.modules, "edgepack_electra", raising=False)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)

    return write


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_electra(tmp_path_factory.mktemp("models") / "electra")


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


def test_it_is_made_small_as_any_other(
    install: Install, folder: Path, fresh: Callable[[], HostContext]
) -> None:
    install()
    source = ingest(str(folder), context=fresh())
    prepared = prepare_model(source, options=ModelOptions(recipe="int8"), context=fresh())
    assert prepared.precision == "int8"
    found = inspect_model(source, context=fresh())
    fused = {each.name for each in found.fused_operators}
    assert {"Attention", "MultiHeadAttention"} & fused, "written in the shapes that are fused"


def test_it_may_say_how_many_tokens_its_models_take(
    install: Install, tmp_path: Path, fresh: Callable[[], HostContext]
) -> None:
    folder = write_electra(tmp_path / "electra")
    for said, longest in (("None", 32), ("config['hidden_size'] - 8", 24)):
        install(('revision="1"', f"max_tokens=lambda config: {said}"))
        assert ingest(str(folder), context=fresh()).max_length == longest
    for said, words in (("0", "returned 0, expected a whole number"), ("1 / 0", "ZeroDivisionError")):
        install(('revision="1"', f"max_tokens=lambda config: {said}"))
        with pytest.raises(PluginError, match=f"max_tokens of architecture electra.*{words}"):
            ingest(str(folder), context=fresh())


def test_who_wrote_the_graph_is_said(
    install: Install, folder: Path, fresh: Callable[[], HostContext]
) -> None:
    install()
    source = ingest(str(folder), context=fresh())
    assert source.graph_by == "edgepack-electra 1.2, revision 1"
    assert source.warnings == (
        "its graph is written by a plugin (edgepack-electra 1.2, revision 1), and the bundle is compared with that graph",
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize("revision", ["1", "2"])
def test_a_changed_architecture_makes_the_model_anew_when_its_revision_says_so(
    install: Install, folder: Path, fresh: Callable[[], HostContext], revision: str
) -> None:
    install()
    options = ModelOptions(recipe="fp32", format="onnx")

    def made() -> tuple[Path, Path]:
        source = ingest(str(folder), context=fresh())
        exported = exported_model(source, context=fresh())
        return exported, prepare_model(source, options=options, context=fresh()).file

    first = made()
    install(('revision="1"', f'revision="{revision}"'), ("with_types=True", "with_types=False"))
    again = made()
    assert [one == other for one, other in zip(first, again, strict=True)] == [revision == "1"] * 2
    assert (first[1].read_bytes() == again[1].read_bytes()) == (revision == "1")


RETURN = "return graphs.TokenVectors(name=hidden)"


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([("make=lambda: write_electra", "make=lambda: 1 / 0")], "failed in make of architecture electra: ZeroDivisionError"),
        ([("make=lambda: write_electra", "make=write_electra")], "failed in make of architecture electra: TypeError"),
        ([("make=lambda: write_electra", "make=dict")], "failed in architecture electra: TypeError"),
        ([(", writer: graphs.GraphWriter\n", "\n")], "failed in architecture electra: TypeError"),
        ([(RETURN, "raise KeyError('layers')")], "failed in architecture electra: KeyError: 'layers'"),
        ([(RETURN, "raise SystemExit(2)")], "failed in architecture electra: it ended the program"),
        ([(RETURN, "return None")], "architecture electra returned None, expected TokenVectors of values that it wrote"),
        ([(RETURN, "return hidden")], "architecture electra returned 'encoder.layer.1.output.LayerNorm', expected TokenVectors"),
        ([(RETURN, "return graphs.TokenVectors(name='hidden')")], "architecture electra returned TokenVectors(name='hidden', counted='attention_mask'"),
        ([(RETURN, "return graphs.TokenVectors(name=hidden, counted='mask')")], "architecture electra returned TokenVectors(name='encoder.layer.1.output.LayerNorm'"),
        ([(RETURN, "return graphs.TokenVectors(name=writer.add('Gelu', 'x', hidden))")], "architecture electra wrote a graph that does not run"),
        ([(RETURN, "return graphs.TokenVectors(name=writer.add('MatMul', 'x', hidden, 'nowhere'))")], "architecture electra wrote a graph that does not run"),
        ([(RETURN, "return graphs.TokenVectors(name=writer.add('Cast', 'x', 'input_ids', to=1))")], "architecture electra wrote a graph that"),
        ([(RETURN, "return graphs.TokenVectors(name=writer.add('Concat', 'x', hidden, hidden, axis=2))")], "architecture electra wrote a graph that does not run"),
        ([(RETURN, "return graphs.TokenVectors(name=writer.add('Div', 'x', hidden, writer.scalar('none', 0.0)))")], "architecture electra wrote a graph that gives [4, 32] for 4 texts, expected 32 finite"),
        ([("names=NAMES)\n", "names=NAMES, bias=writer.scalar('none', 0.0))\n")], "architecture electra wrote a graph whose vectors depend on the padding of a batch"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_architecture_is_said_with_its_name(
    install: Install,
    folder: Path,
    fresh: Callable[[], HostContext],
    changes: list[tuple[str, str]],
    words: str,
) -> None:
    install(*changes)
    source = ingest(str(folder), context=fresh())
    with pytest.raises(PluginError) as caught:
        exported_model(source, context=fresh())
    assert caught.value.message.replace("plugin electra: ", "plugin electra ").startswith(
        f"plugin electra {words}"
    )


def test_what_it_refuses_on_purpose_is_said(
    install: Install, tmp_path: Path, fresh: Callable[[], HostContext]
) -> None:
    install()
    model = write_electra(tmp_path / "electra", hidden_act="silu")
    with pytest.raises(UnsupportedModelError, match="hidden_act 'silu' is not supported"):
        exported_model(ingest(str(model), context=fresh()), context=fresh())
    config = json.loads((model / "config.json").read_text())
    write_json(model / "config.json", {**config, "hidden_act": "gelu", "num_hidden_layers": 5})
    with pytest.raises(ModelError, match=r"no tensor encoder\.layer\.2"):
        exported_model(ingest(str(model), context=fresh()), context=fresh())


@pytest.mark.parametrize("name", ["bert", "nomic_bert"])
def test_a_name_of_ours_is_refused(install: Install, name: str) -> None:
    install(('name="electra"', f'name="{name}"'))
    broken = {plugin.name: plugin.error for plugin in load_plugins().plugins if plugin.error}
    assert list(broken.values()) == [f"architecture {name} is registered already"]


def test_a_ready_made_graph_is_nobodys(
    install: Install, folder: Path, tmp_path: Path, fresh: Callable[[], HostContext]
) -> None:
    install()
    graph = exported_model(ingest(str(folder), context=fresh()), context=fresh())
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "model.onnx").write_bytes(graph.read_bytes())
    assert ingest(str(tmp_path / "model.onnx"), context=fresh()).graph_by == ""
