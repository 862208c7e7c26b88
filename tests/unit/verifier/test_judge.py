"""What is asked of a finished bundle, and in which texts: a stranger's program knows the published ones."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.report import Verification
from edgepack.records.target import ModelOptions
from edgepack.verifier import judge as judging
from edgepack.verifier.gate import verification_texts
from edgepack.verifier.judge import Judged, judge

DRAWN = ("drawn by 7",)


class Asked:
    """Everything that is asked, in the order in which it is, each answered as a right bundle does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, context: HostContext) -> None:
        self.context, self.order, self.texts = context, list[str](), dict[str, Sequence[str]]()
        self.status: Any = "passed"
        self.bundle = Bundle(directory=Path("bundle"), manifest={})
        said = {
            "verify": lambda *_, seed, **__: self._found(seed),
            "not_asked": lambda *_: ("its licence",),
            "texts_for_strangers": lambda source, seed: {7: DRAWN}[seed],
            "require_other_forms": lambda bundle, embed, texts, *_: self._asked("forms", texts),
        }
        for name in ("precision", "golden", "promises", "used_files"):
            said[f"require_{name}"] = lambda *_, name=name, **__: self._asked(name)
        for name, stand_in in said.items():
            monkeypatch.setattr(judging, name, stand_in)

    def _found(self, seed: int | None) -> Verification:
        self.order.append(f"vectors {seed}")
        return Verification(status=self.status)

    def _asked(self, name: str, texts: Sequence[str] = ()) -> None:
        self.order.append(name)
        self.texts[name] = tuple(texts)

    def _at_levels(self, texts: Sequence[str], found: Verification) -> Verification:
        self._asked("levels", texts)
        return replace(found, levels=("avx2",))

    def require_server(self, bundle: Bundle) -> None:
        self._asked("server")

    def judge(self, *, said: tuple[str, ...] | None, **how: Any) -> Verification:
        options = ModelOptions()
        asked = Judged(bundle=self.bundle, source=None, options=options, seed=7, said=said)  # type: ignore[arg-type]
        runner: Any = self
        embed: Any = None
        return judge(asked, runner, embed, at_levels=self._at_levels, context=self.context, **how)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, context: HostContext) -> Asked:
    return Asked(monkeypatch, context)


def test_a_stranger_s_program_is_asked_drawn_texts_at_levels_and_in_forms(asked: Asked) -> None:
    found = asked.judge(said=("its name",))
    assert asked.order == [
        "vectors 7",
        "precision",
        "golden",
        "levels",
        "forms",
        "promises",
        "used_files",
        "server",
    ]
    assert asked.texts["levels"] == asked.texts["forms"] == DRAWN
    assert (found.said, found.levels) == (("its name", "its licence"), ("avx2",))


def test_a_bundle_of_ours_is_held_to_limits_of_the_published_texts(asked: Asked) -> None:
    found = asked.judge(said=None, copies=False)
    assert asked.order == ["vectors 7", "precision", "golden", "levels", "server"]
    assert asked.texts["levels"] == verification_texts()
    assert found.said == ()


def test_what_was_not_verified_has_no_levels(asked: Asked) -> None:
    asked.status = "not verified"
    assert asked.judge(said=()).levels == ()
    assert asked.order == ["vectors 7", "precision", "golden", "promises", "used_files", "server"]
