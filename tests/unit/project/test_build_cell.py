"""What makes a cell of a project another one."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.berts import write_bert

from edgepack import pipeline
from edgepack.bundles.model_section import source_section
from edgepack.errors import UsageError
from edgepack.models.find.source import ingest
from edgepack.plugins.context import HostContext
from edgepack.project import build_cell
from edgepack.project.build_cell import _claim, edition, key_of_cell, make_cell, settle, target_of
from edgepack.project.file import Wanted
from edgepack.project.jobs import Job, Result, State
from edgepack.project.matrix import Cell
from edgepack.records.target import Pass, Target


def test_a_bundle_that_requires_a_signature_is_for_another_command(
    tmp_path: Path, context: HostContext
) -> None:
    """It ended with the advice to do what had been done."""
    wanted = Wanted(targets=("linux-x86-min",), settings={"require_signature": str(tmp_path / "team.pub")})
    with pytest.raises(UsageError, match="signed when all are made"):
        target_of(Cell(wanted=wanted, target="linux-x86-min"), context)


@pytest.mark.tools("g++", "zig")
def test_a_cell_is_another_one_with_another_licence_corpus_or_toolchain(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relicensed model was up to date, and shipped under the licence of before."""
    folder, corpus = tmp_path / "tiny", tmp_path / "corpus.txt"
    write_bert(folder, num_hidden_layers=1)
    corpus.write_text("a cat\n")
    target = context.plugins().target("linux-x86-fast", {})
    recipe = (Pass(name="prune-vocabulary", parameters={"corpus": str(corpus)}),)
    pruned = replace(target, model=replace(target.model, recipe=recipe))

    def key() -> str:
        return key_of_cell(ingest(str(folder), context=context), pruned, context)

    keys = [key()]
    assert key() == keys[0]
    for file, text in (
        (folder / "LICENSE", "MIT"),
        (folder / "LICENSE", "GPL"),
        (folder / "README.md", "---\nlicense: mit\n---\n"),
        (folder / "README.md", "---\nlicense: gpl-3.0\n---\n"),
        (corpus, "a dog\n"),
    ):
        file.write_text(text)
        keys.append(key())
    monkeypatch.setenv("EDGEPACK_TOOLCHAIN", "zig")
    assert key() == keys[-1], "the usual one"
    monkeypatch.setenv("EDGEPACK_TOOLCHAIN", "gcc")
    keys.append(key())
    assert len(set(keys)) == len(keys)
    monkeypatch.delenv("EDGEPACK_TOOLCHAIN")
    folder.rename(tmp_path / "elsewhere")
    (tmp_path / "moved").mkdir()
    folder = (tmp_path / "elsewhere").rename(tmp_path / "moved/tiny")
    assert key() == keys[-2]


def test_a_cell_is_another_one_with_another_file_that_an_option_names(
    tmp_path: Path, context: HostContext
) -> None:
    """A wheel of one's own was replaced, or removed, and the bundle with the old one was up to date."""
    write_bert(tmp_path / "tiny", num_hidden_layers=1)
    source, wheel = ingest(str(tmp_path / "tiny"), context=context), tmp_path / "onnxruntime-own.whl"
    target = context.plugins().target("linux-x86-min", {})
    named = replace(
        target, options={**target.options, "onnxruntime": str(wheel), "more": ["x" * 5000, "a\0b"]}
    )
    keys = []
    for content in (b"one", b"two", None):
        wheel.unlink(missing_ok=True)
        if content is not None:
            wheel.write_bytes(content)
        keys.append(key_of_cell(source, named, context))
    assert len(set(keys)) == 3


def test_what_a_worker_has_just_made_may_hold_another_python(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[bool]()
    states: tuple[State, ...] = ("made", "in the store")
    monkeypatch.setattr(build_cell, "_claim", lambda path, order: None)
    monkeypatch.setattr(build_cell, "_stays", lambda *said, context: None)
    monkeypatch.setattr(build_cell, "open_shared", lambda url, *, context: None)
    monkeypatch.setattr(build_cell, "packagers_of", lambda target, context: [])
    monkeypatch.setattr(build_cell, "target_of", lambda cell, context: None)

    def take(*said: object, just_made: bool, **how: object) -> bool:
        asked.append(just_made)
        return True

    monkeypatch.setattr(build_cell, "take", take)
    for state in states:
        result = Result(label="a", state=state, seconds=0, path=tmp_path / "a", key="1")
        settle(result, SimpleNamespace(store="", cell=None, force=False), context=context)  # type: ignore[arg-type]
    assert asked == [True, False]


@pytest.mark.parametrize("axis", build_cell.OF_ALL)
def test_a_cell_is_another_one_with_another_plugin_that_is_asked_of_all(
    axis: str, tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check that refuses what it had passed was not asked: the bundle was up to date."""
    write_bert(tmp_path / "tiny", num_hidden_layers=1)
    source = ingest(str(tmp_path / "tiny"), context=context)
    target = context.plugins().target("linux-x86-fast", {})
    keys, usual = [key_of_cell(source, target, context)], HostContext.extensions
    for version in ("1.0", "2.0"):
        theirs = SimpleNamespace(identity=f"theirs {version}, revision 1")
        monkeypatch.setattr(
            HostContext,
            "extensions",
            lambda self, asked, theirs=theirs: {
                **usual(self, asked),
                **({"theirs": theirs} if asked == axis else {}),
            },
        )
        keys.append(key_of_cell(source, target, context))
    assert len(set(keys)) == 3


def test_what_is_made_of_files_that_were_changed_meanwhile_is_not_remembered(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bundle of a training's next state was up to date, and in the shared store, for the state before."""
    write_bert(tmp_path / "tiny", num_hidden_layers=1)
    texts = tmp_path / "texts.txt"
    remembered = list[str]()

    def order(number: int) -> Job:
        (tmp_path / f"claims-{number}").mkdir()
        wanted = Wanted(
            model=str(tmp_path / "tiny"),
            targets=("linux-x86-fast",),
            output=str(tmp_path / "dist"),
            settings={"model.calibration": str(texts)},
        )
        cell = Cell(wanted=wanted, target="linux-x86-fast")
        claims = str(tmp_path / f"claims-{number}")
        return Job(cell=cell, number=number, edition=edition(context), claims=claims)

    def made_of(changed: Path | None) -> Any:
        def build(target: Target, *, model: str, context: HostContext, **how: object) -> Any:
            if changed is not None:
                changed.write_bytes(changed.read_bytes() + b"\n")
            section = source_section(ingest(model, context=context))
            bundle = SimpleNamespace(name="tiny", directory=tmp_path, manifest={"model": section})
            return SimpleNamespace(bundle=bundle, report=None)

        return build

    monkeypatch.setattr(build_cell, "memory_of", lambda key, outcome: {"key": key})
    monkeypatch.setattr(
        build_cell, "remember", lambda folder, memory, **how: remembered.append(memory["key"])
    )
    config = tmp_path / "tiny/config.json"
    for number, changed in enumerate((None, config, texts)):
        texts.write_text("a cat\n")
        monkeypatch.setattr(pipeline, "build", made_of(changed))
        done = make_cell(order(number), context=context)
        assert done.state == ("failed" if changed else "made"), done.error
    assert len(remembered) == 1 and "was changed while tiny was made" in str(done.error)


def test_another_edition_of_the_same_version_makes_another_bundle(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bundle that the code before a mend had made was up to date, and workers with that code were asked."""
    write_bert(tmp_path / "tiny", num_hidden_layers=1)
    source = ingest(str(tmp_path / "tiny"), context=context)
    target = context.plugins().target("linux-x86-fast", {})
    before, key = edition(context), key_of_cell(source, target, context)
    digested = set[str]()

    def another(*packages: str) -> str:
        digested.update(packages)
        return "another"

    monkeypatch.setattr(build_cell, "digest_of_code", another)
    assert key_of_cell(source, target, context) != key
    assert {"edgepack", "edgepack_engine", "edgepack_nomic"} <= digested
    cell = Cell(wanted=Wanted(model=source.name, targets=("linux-x86-fast",)), target="linux-x86-fast")
    done = make_cell(Job(cell=cell, number=0, edition=before, claims=None), context=context)
    assert f"and {before} asks it" in str(done.error)


@pytest.mark.parametrize("other", ["dist/../dist", "link", "dist/"])
def test_a_place_has_many_names_and_is_one_cells(tmp_path: Path, other: str) -> None:
    """Two cells made by turns what the other had made, and both were said to be made."""
    (tmp_path / "claims").mkdir()
    (tmp_path / "link").symlink_to("dist")

    def job(number: int, recipe: str) -> Job:
        cell = Cell(wanted=Wanted(targets=("t",), recipe=recipe), target="t")
        return Job(cell=cell, number=number, edition="", claims=str(tmp_path / "claims"))

    _claim(tmp_path / "dist" / "a", job(0, "fp32"))
    with pytest.raises(UsageError, match="is made at"):
        _claim(tmp_path / other / "a", job(1, "int8"))
    _claim(tmp_path / other / "b", job(1, "int8"))
