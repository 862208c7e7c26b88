"""Opening a kernel archive: configured once, by one process, and again when that did not come to its end."""

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.support.small_archive import small_archive

from edgepack.errors import ToolError
from edgepack.foundry.compile.archive import KernelArchive, open_archive
from edgepack.foundry.compile.plan import COMMANDS, CONFIGURED
from edgepack.foundry.units import OVERLAY, Unit
from edgepack.plugins.context import HostContext

pytestmark = pytest.mark.tools("gcc")


def test_an_object_is_another_with_other_flags_or_another_overlay(context: HostContext) -> None:
    """The archive's key says nothing of either: the identity is all that keeps a stale object from being linked."""
    archive = small_archive(context.store)
    name, plain = next(iter(archive.units.items()))

    def identity(unit: Unit, overlay: str = "none") -> str:
        changed = replace(
            archive, units={**archive.units, name: unit}, overlay=archive.overlay.with_name(overlay)
        )
        return changed.job(name).identity

    over = replace(plain, flags=(*plain.flags, f"-I{OVERLAY}"))
    assert identity(plain) == identity(plain, "another")
    assert identity(over) != identity(over, "another")
    assert identity(plain) != identity(replace(plain, flags=(*plain.flags, "-O3")))
    other = replace(archive, overlay=archive.overlay.with_name("another"))
    assert archive.identity != other.identity and archive.key == other.key


@dataclass(kw_only=True)
class Opener:
    """Opens the archive of a few lines of C; CMake is played by a function that counts."""

    context: HostContext
    small: KernelArchive
    configured: int = 0

    def configure(self, tree: object, build: Path, **_: object) -> None:
        self.configured += 1
        build.mkdir(parents=True, exist_ok=True)
        entries = [
            {
                "file": str(self.small.tree.folder / f"{name}.c"),
                "command": f"gcc -Wall -DX -I{build} -o x.o -c {name}.c",
                "output": f"{build}/CMakeFiles/part.dir/{name}.c.o",
            }
            for name in ("unit0", "unit1")
        ]
        (build / COMMANDS).write_text(json.dumps(entries))
        (build / CONFIGURED).write_text("")

    def open(self) -> KernelArchive:
        return open_archive(kind="minimal", toolchain=self.small.toolchain, context=self.context)


@pytest.fixture
def opener(monkeypatch: pytest.MonkeyPatch, context: HostContext) -> Opener:
    made = Opener(context=context, small=small_archive(context.store))
    shutil.rmtree(made.small.folder)
    monkeypatch.setattr("edgepack.foundry.compile.archive.source_tree", lambda *_, **__: made.small.tree)
    monkeypatch.setattr("edgepack.foundry.compile.archive.write_overlay", lambda *words: words[-1] / "none")
    monkeypatch.setattr("edgepack.foundry.compile.plan.configure", made.configure)
    return made


def test_a_plan_is_made_once(opener: Opener) -> None:
    first = opener.open()
    assert opener.open().units == first.units
    assert opener.configured == 1
    unit = first.units["part/unit0.c"]
    assert unit.source == "@TREE@/unit0.c" and "-I@BUILD@" in unit.flags and "-Wall" not in unit.flags


def test_sources_are_compared_before_they_are_compiled(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(tree: object) -> None:
        raise ToolError("damaged")

    monkeypatch.setattr("edgepack.foundry.compile.archive.require_whole", damaged)
    with pytest.raises(ToolError, match="damaged"):
        opener.open().compile(["part/unit0.c"], context=opener.context)


@pytest.mark.parametrize("damage", ["", "{", '{"part/unit0.c": 1}', "[]"])
def test_a_damaged_plan_is_made_again_without_configuring(damage: str, opener: Opener) -> None:
    first = opener.open()
    next(first.folder.glob("units-*.json")).write_text(damage)
    assert opener.open().units == first.units
    assert opener.configured == 1


def test_configuring_that_did_not_come_to_its_end_is_done_again(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(tree: object, build: Path, **_: object) -> None:
        build.mkdir(parents=True, exist_ok=True)
        (build / COMMANDS).write_text("[")
        raise ToolError("killed")

    with monkeypatch.context() as patched:
        patched.setattr("edgepack.foundry.compile.plan.configure", killed)
        with pytest.raises(ToolError):
            opener.open()
    assert len(opener.open().units) == 2
    assert opener.configured == 1
