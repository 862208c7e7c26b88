"""An encoder of a plugin's own: the one that the page shows, compiled and run, and what is said of one that does not compile."""

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from onnx import load, numpy_helper
from tests.support.golden import ROOT
from tests.support.native import compile_together, compiler
from tests.support.once import made_once
from tests.support.sample_program import run_program, vectors_of

from edgepack.errors import ToolError
from edgepack.foundry.compile.objects import CompileJob
from edgepack.foundry.link import standalone
from edgepack.plugins.context import HostContext
from edgepack.records.target import Platform
from edgepack.runner.freeze.sample_bundle import write_manifest
from edgepack.runner.native import build
from edgepack.runner.native.sources import own_encoder, program_sources, source_files

pytestmark = pytest.mark.tools("c++", "python")


def shown() -> dict[str, str]:
    """The sources that the page shows."""
    page = (ROOT / "docs/tutorials/encoder.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^`csrc/([\w.]+)`\n\n```cpp\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(folder: Path) -> None:
        compile_together(program_sources(own_encoder(shown())), folder / "embed", "-O0")

    return made_once(tmp_path_factory, "shown-encoder", make) / "embed"


@pytest.fixture
def bundle(native_sample: Path, program: Path, tmp_path: Path) -> Path:
    """The sample bundle, whose model is a table and a mean of its rows, with that table in its model's place."""
    folder = tmp_path / "bundle"
    shutil.copytree(native_sample, folder)
    (graph_file,) = (folder / "model").glob("*.onnx")
    (table,) = (each for each in load(graph_file).graph.initializer if each.name == "table")
    (folder / "model" / "model.table").write_bytes(numpy_helper.to_array(table).astype("<f4").tobytes())
    graph_file.unlink()
    shutil.rmtree(folder / "lib")
    shutil.copy(program, folder / "embed")
    list_files(folder)
    return folder


def list_files(folder: Path) -> None:
    """A manifest of a bundle without a runtime."""
    write_manifest(folder, library="")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["model"]["file"] = "model/model.table"
    manifest["runtime"] = None
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_the_encoder_that_the_page_shows_makes_the_models_vectors(native_sample: Path, bundle: Path) -> None:
    texts = ("a cat", "the kitten sat on the mat", "")
    by_table, by_graph = (vectors_of(run_program(each, *texts).stdout) for each in (bundle, native_sample))
    for made, wanted in zip(by_table, by_graph, strict=True):
        assert made == pytest.approx(wanted, abs=1e-5)
    assert "none: the mean of a table's rows" in run_program(bundle, "--info").stdout.decode()


def test_what_the_page_says_of_errors_is_what_the_program_says(bundle: Path) -> None:
    (bundle / "model" / "model.table").write_bytes(bytes(32))
    list_files(bundle)
    done = run_program(bundle, "a cat")
    assert done.returncode == 4
    assert re.fullmatch(
        r"error: the table has no token \d+\nhint: copy the whole bundle.*\n", done.stderr.decode()
    )


@pytest.mark.parametrize("header", ["base/error.h", "encoder/encoder.h"])
def test_the_page_shows_the_program_s_own_headers(header: str) -> None:
    page = (ROOT / "docs/tutorials/encoder.md").read_text(encoding="utf-8")
    declared = r"^(?:enum Code .*?;|(?:struct|class) .*?^};|extern .*?;|Error \w+\(.*?\);)"
    found = re.findall(declared, source_files(header)[header], re.MULTILINE | re.DOTALL)
    assert len(found) > 1
    assert all(each in page for each in found)


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[CompileJob]:
    """What ``link_encoder`` would have compiled; it then fails as a compiler does."""
    asked: list[CompileJob] = []

    def compile_objects(wanted: Sequence[CompileJob], **_: object) -> None:
        asked.extend(wanted)
        raise ToolError(
            "encoder/own/encoder.cc does not compile: the cause", hint="the whole output is in LOG"
        )

    toolchain = SimpleNamespace(
        identity="c++",
        revision="",
        cxx_flags=(),
        symbols=None,
        protection=None,
        units=lambda *_: (),
        command=lambda language: compiler(),
    )
    monkeypatch.setattr(standalone, "choose", lambda platform, **_: toolchain)
    monkeypatch.setattr(standalone, "compile_objects", compile_objects)
    monkeypatch.setattr(build, "minimal_json", lambda source: "")
    monkeypatch.setattr(build, "compiled_tokenizer", lambda document, *, context: None)
    return asked


@pytest.mark.slow
def test_an_encoder_includes_headers_of_others(
    jobs: list[CompileJob], tmp_path: Path, context: HostContext
) -> None:
    for name, text in (("first/acme/c.h", '#include "acme/more.h"'), ("second/acme/more.h", "#define MORE 3"), ("second/acme/c.h", "#error")):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    (tmp_path / "first/acme/c.cc").write_text("#error\n")
    encoder = {
        **shown(),
        "more.cc": '#include "encoder/encoder.h"\n#include "acme/c.h"\nstatic_assert(MORE == 3, "");\n',
    }
    with pytest.raises(ToolError) as caught:
        build.link_encoder(
            SimpleNamespace(source=SimpleNamespace(head=None, outputs=None)),  # type: ignore[arg-type]
            encoder,
            includes=[tmp_path / "first", tmp_path / "second"],
            platform=Platform(os="linux", arch="x86_64"),
            context=context,
        )
    assert "docs/tutorials/encoder.md" in str(caught.value.hint)
    assert "LOG" in str(caught.value.hint)
    own = {job.name: job.command for job in jobs if job.name.startswith(("encoder/", "include/"))}
    assert sorted(own) == ["encoder/own/encoder.cc", "encoder/own/more.cc"]
    for command in own.values():
        subprocess.run([*command, "-fsyntax-only"], check=True)
