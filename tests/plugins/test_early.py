"""What can be known before anything is fetched or made is told then: place, tools, room, budget."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.berts import write_bert
from tests.support.kiosk import install, prepare_site
from tests.support.static_models import write_module

from edgepack import pipeline
from edgepack.bundles import disk_space
from edgepack.console import Story
from edgepack.errors import BudgetError, DiskFullError, MissingToolError, OutputError
from edgepack.files.store import Store
from edgepack.plugins.builder import Builder
from edgepack.plugins.context import HostContext, host_context
from edgepack.plugins.host import load_plugins


@pytest.fixture
def own(tmp_path: Path) -> Iterator[HostContext]:
    with host_context(story=Story(quiet=True), offline=True, store=Store(root=tmp_path / "cache")) as made:
        yield made


@pytest.fixture
def kiosk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the plugin is installed in."""
    return prepare_site(tmp_path / "site", monkeypatch)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_bert(tmp_path / "tiny")
    return tmp_path / "tiny"


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Filled where a model is prepared after all."""
    calls: list[int] = []
    monkeypatch.setattr(Builder, "prepare_model", lambda *_: calls.append(1))
    return calls


def build(model: Path, output: Path, context: HostContext, *overrides: str) -> pipeline.Outcome:
    host = load_plugins()
    target, context = host.target("kiosk-one", overrides), replace(context, plugins=lambda: host)
    return pipeline.build(target, model=str(model), output=output, context=context)


def taken(output: Path) -> None:
    (output / "all-MiniLM-L6-v2-kiosk-one").mkdir(parents=True)


def a_file(output: Path) -> None:
    output.touch()


def below_a_file(output: Path) -> None:
    output.parent.rmdir()
    output.parent.touch()


def test_a_static_model_for_another_target_is_told_its_own(
    kiosk: Path,
    own: HostContext,
    prepared: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(kiosk, monkeypatch)
    told: list[str] = []
    monkeypatch.setattr(Story, "warn", lambda story, message: told.append(message))
    with pytest.raises(AttributeError):
        build(write_module(tmp_path / "table"), tmp_path / "dist", own)
    assert prepared == [1]
    assert [each for each in told if each.startswith("table is a static model: --target linux-x86-static or")]


def test_a_place_where_nobody_can_write(
    kiosk: Path, own: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(kiosk, monkeypatch)
    with pytest.raises(OutputError, match="cannot write to /proc/of/dist"):
        build(Path("all-MiniLM-L6-v2"), Path("/proc/of/dist"), own)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [(taken, "already exists"), (a_file, "is a file"), (below_a_file, "is a file")],
)
def test_a_place_that_cannot_be_is_told_before_the_model_is_sought(
    kiosk: Path,
    own: HostContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[Path], None],
    words: str,
) -> None:
    install(kiosk, monkeypatch)
    (tmp_path / "of").mkdir()
    spoil(tmp_path / "of/dist")
    with pytest.raises(OutputError, match=words):
        build(Path("all-MiniLM-L6-v2"), tmp_path / "of/dist", own)


def test_tools_without_which_nothing_can_be_made_are_told_before_the_model_is_sought(
    kiosk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = ("options=lambda: OPTIONS", "options=lambda: OPTIONS, missing=lambda target: ['zig']")
    install(kiosk, monkeypatch, lacking)
    (tmp_path / "store/models").mkdir(parents=True)
    with (
        host_context(story=Story(), offline=True, store=Store(root=tmp_path / "store")) as context,
        pytest.raises(MissingToolError, match="not installed: zig") as caught,
    ):
        build(Path("all-MiniLM-L6-v2"), tmp_path / "dist", context)
    assert caught.value.hint == "pip install 'edgepack[build]'"


def test_room_is_asked_for_before_the_model_is_sought_and_when_its_size_is_known(
    kiosk: Path,
    model: Path,
    own: HostContext,
    prepared: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(kiosk, monkeypatch)
    monkeypatch.setattr(disk_space, "free_bytes", lambda path: disk_space.FLOOR - 1)
    with pytest.raises(DiskFullError, match="MB free, and this build takes about 16 MB there"):
        build(Path("all-MiniLM-L6-v2"), tmp_path / "dist", own)
    monkeypatch.setattr(disk_space, "free_bytes", lambda path: disk_space.FLOOR + 1)
    with pytest.raises(DiskFullError):
        build(model, tmp_path / "dist", own)
    assert not prepared


def test_a_budget_that_no_recipe_can_keep_is_told_before_anything_is_prepared(
    kiosk: Path,
    model: Path,
    own: HostContext,
    prepared: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(kiosk, monkeypatch)
    with pytest.raises(BudgetError, match="the model alone has by this recipe about"):
        build(model, tmp_path / "dist", own, "budget.download=1 kB")
    assert not prepared
