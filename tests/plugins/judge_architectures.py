"""The architecture that docs/plugins.md shows, against sentence-transformers."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.test_architectures import Install
from tests.support.electra import install_electra, write_electra

from edgepack.console import Story
from edgepack.files.store import Store
from edgepack.models.judge import difference_from_judge
from edgepack.plugins.context import HostContext, host_context
from edgepack.plugins.host import load_plugins

TEXTS = ("a text", "another text of a few more words", "the same, but longer: " + "word " * 40, "")


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


@pytest.mark.parametrize("shape", [{}, {"embedding_size": 32}], ids=str)
def test_the_vectors_are_those_of_sentence_transformers(
    install: Install, tmp_path: Path, fresh: Callable[[], HostContext], shape: dict[str, Any]
) -> None:
    install()
    folder = write_electra(tmp_path / "electra", **shape)
    assert difference_from_judge(folder, TEXTS, context=fresh()) < 1e-5
    install(("with_types=True", "with_types=False"), ('revision="1"', 'revision="2"'))
    assert difference_from_judge(folder, TEXTS, context=fresh()) > 1e-3, "the judge notices"
