"""Another release drafted: the folder that is written, the first build, and what is said where it cannot be made."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bin.draft_release import __main__ as script
from bin.draft_release import first_build as drafting
from bin.draft_release.tree import Tree
from click.testing import CliRunner
from tests.unit.draft_release.trees import remove, small_release, write_tree

from edgepack.cli import cli
from edgepack.errors import EdgepackError, MissingToolError, OutputError, ToolError
from edgepack.foundry.platform import RuntimeOptions
from edgepack.foundry.release import Release
from edgepack.foundry.releases import registry as known
from edgepack.foundry.releases.release_folder import read_room
from edgepack.foundry.sources.pinned import fetch_archives
from edgepack.plugins.context import HostContext
from edgepack.records.operators import Operators
from edgepack.records.runtime import LevelProof
from edgepack.runtimes.standalone import LibraryOptions

PREPARED = SimpleNamespace(
    needs=Operators(), source=SimpleNamespace(name="a-model"), file=Path("model.ort"), precision="int8"
)


@dataclass
class Bench:
    """A tree of the release 0.2.0, and a platform that plays the compiler."""

    folder: Path
    release: Release
    context: HostContext
    fails: EdgepackError | None = None
    asked: RuntimeOptions | None = None

    def reduce(self, needs: Operators, options: RuntimeOptions, *, context: HostContext) -> Any:
        self.asked = options
        if self.fails:
            raise self.fails
        library = self.folder / "libonnxruntime.so.0.2.0"
        library.write_bytes(b"\x7fELF" * 250)
        return SimpleNamespace(file=library)

    def prove(self, *_: object, **__: object) -> tuple[LevelProof, ...]:
        return (
            LevelProof(level="avx2", proved=True, min_cosine=0.9999),
            LevelProof(level="amx", proved=False, reason="neither"),
        )

    def draft(self, *, build: bool = True) -> drafting.Drafted:
        platform: Any = self
        return drafting.draft(
            self.folder / "new",
            model=None,
            options=LibraryOptions(),
            platform=platform,
            build=build,
            output=self.folder / "room",
            release=self.release,
            context=self.context,
        )


@pytest.fixture
def bench(tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch) -> Bench:
    release = small_release(tmp_path / "data")
    monkeypatch.setattr(known, "RELEASES", (release,))
    own = write_tree(tmp_path / "known", "0.1.0")
    write_tree(tmp_path / "new", "0.2.0")
    monkeypatch.setattr(
        drafting, "source_tree", lambda *_, **__: SimpleNamespace(onnxruntime=own.folder, header="")
    )
    monkeypatch.setattr(drafting, "ingest", lambda *_, **__: None)
    monkeypatch.setattr(drafting, "prepare_model", lambda *_, **__: PREPARED)
    monkeypatch.setattr(drafting, "required", lambda needs: needs)
    return Bench(folder=tmp_path, release=release, context=context)


def test_a_room_and_a_library_that_runs_a_model(bench: Bench) -> None:
    made = bench.draft()
    assert made.build.ran and made.build.bytes == 1000 and made.build.min_cosine == 0.9999
    assert bench.asked is not None and bench.asked.release is not None
    assert (bench.asked.release.version, bench.asked.release.overlay) == ("0.2.0", ())
    room = bench.folder / "room"
    assert {path.name for path in room.iterdir()} == {"room.toml", "data", "UPGRADE.md", "draft.json"}
    page = (room / "UPGRADE.md").read_text()
    assert (
        "a library of 1,000 bytes runs a-model." in page
        and "stock library that is installed: 0.999900" in page
    )
    said = json.loads((room / "draft.json").read_text())
    assert said["first_build"]["ran"] and said["used"] == ["rows of cpu_execution_provider.cc"]
    assert said["version"] == "0.2.0" and said["like"] == "0.1"


def test_the_sources_are_where_builds_look_for_them(bench: Bench) -> None:
    bench.draft(build=False)
    assert bench.asked is None
    pinned = read_room(bench.folder / "room").catalogue.parts["onnxruntime"].archives
    (file,) = fetch_archives([pinned], context=bench.context)
    assert file.name == "onnxruntime-0.2.0.tar.zst", "and offline at that"


def test_what_the_sources_are_to_blame_for_is_part_of_the_result(bench: Bench) -> None:
    bench.fails = ToolError(
        "onnxruntime_session/x.cc does not compile: no member named Y", hint="see the log"
    )
    made = bench.draft()
    assert not made.build.ran and made.build.said == bench.fails.message
    assert "x.cc does not compile: no member named Y." in (bench.folder / "room/UPGRADE.md").read_text()


def test_a_missing_compiler_is_said_as_such_and_the_room_stays(bench: Bench) -> None:
    bench.fails = MissingToolError(
        "zig, the compiler for the runtime, is not installed", hint="pip install it"
    )
    with pytest.raises(MissingToolError, match="zig"):
        bench.draft()
    assert "not finished." in (bench.folder / "room/UPGRADE.md").read_text()


def test_nothing_is_compiled_while_a_needed_patch_does_not_fit(bench: Bench) -> None:
    file = bench.folder / "new/onnxruntime/core/providers/cpu/cpu_execution_provider.cc"
    file.write_text(file.read_text().replace("BuildKernelCreateInfo<ONNX", "MakeInfo<A_KERNEL"))
    made = bench.draft()
    assert bench.asked is None and not made.build.ran
    assert made.build.said == "not tried: rows of cpu_execution_provider.cc must be mended first"


def test_what_is_there_is_not_overwritten(bench: Bench) -> None:
    (bench.folder / "room").mkdir()
    with pytest.raises(OutputError):
        bench.draft()


def test_half_a_tree_leaves_nothing(bench: Bench) -> None:
    remove(bench.folder / "new", "cmake")
    with pytest.raises(EdgepackError, match="not a whole source tree"):
        bench.draft()
    assert not (bench.folder / "room").exists()


def test_the_script_shows_what_was_found(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = bench.draft(build=False)
    monkeypatch.setattr(script, "draft", lambda *_, **__: made)
    monkeypatch.setenv("COLUMNS", "200")
    room = str(bench.folder / "room")
    script.main(["--sources", "x", "-o", room, "--no-build"])
    shown = capsys.readouterr().out
    assert "rows of cpu_execution_provider.cc" in shown and "UPGRADE.md" in shown
    assert "first build: not tried (--no-build)" in shown
    script.main(["--sources", "x", "--no-build", "--json"])
    assert json.loads(capsys.readouterr().out)["version"] == "0.2.0"
    failed = replace(made, build=drafting.FirstBuild(ran=False, said="x.cc does not compile"))
    monkeypatch.setattr(script, "draft", lambda *_, **__: failed)
    with pytest.raises(ToolError, match=r"was not made: x\.cc does not compile") as error:
        script.main(["--sources", "x", "-o", room])
    assert error.value.hint and error.value.hint.endswith("UPGRADE.md says what to mend")


def test_bad_sources_and_bad_rooms_are_refused_with_a_hint(tmp_path: Path) -> None:
    own = write_tree(tmp_path / "tree", "1.21.0")
    assert isinstance(own, Tree)
    for sources in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(EdgepackError) as error:
            script.main(["--sources", str(sources)])
        assert error.value.hint
    for more in ((), ("-t", "web")):
        words = ["runtime", "lib", "--release", str(tmp_path), *more, "-o", str(tmp_path / "out")]
        raised = CliRunner().invoke(cli, words).exception
        assert isinstance(raised, EdgepackError) and raised.hint, more
    assert not (tmp_path / "out").exists()
