"""Builders that delegate to others: all of the other is in reach, faults are of who makes them, circles end."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.golden import ROOT
from tests.support.schema import against

from edgepack.api import builder_of
from edgepack.errors import PluginError, TargetError
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import PluginHost, load_plugins
from edgepack.records.bundle import RunnerArtifact
from edgepack.records.target import Target
from edgepack.targets import parse_target

BOX = """
from dataclasses import dataclass
from typing import Any
from edgepack import api

@dataclass(frozen=True)
class Box:
    inner: api.TargetBuilder
    context: Any

    def prepare_model(self, source):
        return self.inner.prepare_model(source)

    def provide_runtime(self, model):
        return self.inner.provide_runtime(model)

    def make_runner(self, model, runtime):
        return self.inner.make_runner(model, runtime)

def options():
    return {**api.builder_of("kiosk").options(), "lid": True}

def make(target, context):
    api.read_options(target, options())
    return Box(api.builder_of("kiosk").create(target, context), context)

def missing(target):
    return ["saw", *api.builder_of("kiosk").missing(target)]

def fetch(target, context):
    api.builder_of("kiosk").fetch(target, context)

@api.hookimpl
def edgepack_specs():
    return [api.Spec(axis="builder", name="box", summary="", make=make, options=options, missing=missing, fetch=fetch)]
"""
KIOSK = """
from edgepack import api

class Kiosk:
    def prepare_model(self, source):
        STEP

    def provide_runtime(self, model):
        STEP

    def make_runner(self, model, runtime):
        STEP

def make(target, context):
    api.read_options(target, {"colour": "red"})
    assert target.builder == "kiosk"
    return Kiosk()

def fetch(target, context):
    (context.work_dir / "fetched").write_text(target.options["colour"])

@api.hookimpl
def edgepack_specs():
    return [
        api.Spec(
            axis="builder",
            name="kiosk",
            summary="",
            make=make,
            options=lambda: {"colour": "red"},
            missing=lambda target: ["glue"],
            fetch=fetch,
        )
    ]
"""
SCHEMA = Path(__file__).parents[2] / "docs/schemas/manifest.json"
Install = Callable[..., PluginHost]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs both plugins, with changes to their code."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(*changes: tuple[str, str], step: str = "return None") -> PluginHost:
        for name, code in (("box", BOX), ("kiosk", KIOSK)):
            for old, new in (*changes, ("STEP", step)):
                code = code.replace(old, new)
            (tmp_path / f"edgepack_{name}.py").write_text(code)
            info = tmp_path / f"edgepack_{name}-1.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: edgepack-{name}\nVersion: 1\n")
            (info / "entry_points.txt").write_text(f"[edgepack]\n{name} = edgepack_{name}\n")
            monkeypatch.delitem(sys.modules, f"edgepack_{name}", raising=False)
        return load_plugins()

    return write


def target(builder: str = "box", **options: object) -> Target:
    table = {"schema": 1, "builder": builder, "platform": {"os": "linux", "arch": "x86_64"}}
    return parse_target("t", {**table, "options": options}, origin="t")


def test_whom_a_builder_delegates_to_is_said_once_parts_are_made(
    install: Install, context: HostContext
) -> None:
    box = install().builder_of(target())
    alone = {"plugin": "edgepack-box", "version": "1", "options": {"colour": "red", "lid": True}}
    box.missing(target())
    assert box.made_by(target()) == alone
    box.create(target(), context)
    kiosk = {"builder": "kiosk", "plugin": "edgepack-kiosk", "version": "1"}
    assert box.made_by(target()) == {**alone, "delegates": [kiosk]}
    assert "delegates" not in load_plugins().builder_of(target()).made_by(target())
    schema = json.loads(SCHEMA.read_text())["properties"]["made_by"]
    assert [*against(schema, box.made_by(target()))] == []


def test_all_of_the_other_builder_is_in_reach(install: Install, context: HostContext) -> None:
    box = install().builder_of(target())
    assert box.options() == {"colour": "red", "lid": True}
    assert box.missing(target()) == ("saw", "glue")
    box.fetch(target(colour="blue", lid=False), context)
    assert (context.work_dir / "fetched").read_text() == "blue"
    assert box.create(target(colour="blue", lid=False), context).provide_runtime(None) is None  # type: ignore[arg-type]
    with pytest.raises(TargetError, match="unknown option colours"):
        box.create(target(colours="blue"), context)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("1 / 0", "plugin kiosk failed in {step}: ZeroDivisionError"),
        ("return 'x'", "plugin kiosk: {step} returned 'x', expected"),
    ],
)
def test_what_goes_wrong_in_the_other_is_its_fault(
    install: Install, context: HostContext, step: str, words: str
) -> None:
    made = install(step=step).builder_of(target()).create(target(), context)
    for name, parts in (("prepare_model", 1), ("provide_runtime", 1), ("make_runner", 2)):
        with pytest.raises(PluginError, match=words.format(step=name)):
            getattr(made, name)(*[None] * parts)


CIRCLE = r"builders delegate in a circle: box → kiosk → box"


def test_a_circle_ends_wherever_it_is_closed(install: Install, context: HostContext) -> None:
    host = install(
        ("    return Kiosk()", "    return api.builder_of('box').create(target, context)"),
        ('options=lambda: {"colour": "red"}', "options=lambda: api.builder_of('box').options()"),
        ('lambda target: ["glue"]', "lambda target: api.builder_of('box').missing(target)"),
    )
    box = host.builder_of(target())
    for ask in (box.options, lambda: box.missing(target()), lambda: box.create(target(), context)):
        with pytest.raises(PluginError, match=CIRCLE):
            ask()


def test_a_circle_of_steps_ends(install: Install, context: HostContext) -> None:
    step = "return api.builder_of('box').create(TARGET[0], None).prepare_model(source)"
    host = install(('assert target.builder == "kiosk"', "TARGET.append(target)"), ("class Kiosk", "TARGET = []\nclass Kiosk"), step=step)  # fmt: skip
    made = host.builder_of(target()).create(target(), context)
    with pytest.raises(PluginError, match=CIRCLE):
        made.prepare_model(None)  # type: ignore[arg-type]
    host.builders["kiosk"].options()  # nothing is left of it


def test_a_builder_that_is_not_there(install: Install) -> None:
    install()
    assert builder_of("kiosk").options() == {"colour": "red"}
    with pytest.raises(PluginError, match=r"no builder kiosks to delegate to \(did you mean kiosk\?\)"):
        builder_of("kiosks")


def shown(title: str) -> dict[str, Any]:
    """What the code under a heading of docs/plugins.md defines."""
    page = (ROOT / "docs/plugins.md").read_text(encoding="utf-8")
    (code,) = re.findall(rf"### {title}\n.*?```python\n(.*?)```", page, re.DOTALL)
    module: dict[str, Any] = {"__name__": "shown"}
    exec(code, module)
    return module


def test_the_builder_that_the_page_shows_wraps_another(context: HostContext, tmp_path: Path) -> None:
    module = shown("A builder that wraps another")
    (spec,) = module["edgepack_specs"]()
    assert "runner" not in spec.options()
    assert "library" in spec.options(), "the inner builder's own"
    sealed = spec.make(target("sealed", seal="wax", library=True), context)
    linux = sealed.inner.builder
    assert (linux.runner, linux.library) == ("native", True)
    assert isinstance(spec.missing(target("sealed")), tuple)
    with pytest.raises(TargetError, match="unknown option runner"):
        spec.make(target("sealed", runner="pyinstaller"), context)


def test_what_it_adds_lies_in_a_copy(context: HostContext, tmp_path: Path) -> None:
    (tmp_path / "embed").write_text("program")
    inner = RunnerArtifact(directory=tmp_path, program="embed", kind="native", parts={"embed": "engine"})

    class Inner:
        def make_runner(self, model: object, runtime: object) -> RunnerArtifact:
            return inner

    made = shown("A builder that wraps another")["Sealed"](inner=Inner(), context=context, seal="wax")
    runner = made.make_runner(None, None)
    assert runner.parts == {"embed": "engine", "SEAL": "seal"}
    assert (runner.directory / "SEAL").read_text() == "wax"
    assert not (tmp_path / "SEAL").exists()


def test_the_table_that_the_page_shows_is_checked() -> None:
    kiosk_of = shown("A table of one's own")["kiosk_of"]
    table = {"schema": 1, "builder": "box", "platform": {"os": "linux", "arch": "x86_64"}}

    def read(**own: object) -> Any:
        return kiosk_of(parse_target("t", {**table, "x-kiosk": own}, origin="t"))

    assert (read().colour, read(shelves=3).shelves) == ("red", 3)
    with pytest.raises(TargetError, match=r"target t: \[x-kiosk\].*shelves"):
        read(shelves="many")
    with pytest.raises(TargetError, match="color"):
        read(color="red")
