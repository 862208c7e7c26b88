"""The sample bundle for Windows: the native program with its server, and a table of vectors in the model's and the runtime's place."""

import json
import shutil
import subprocess
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper

from edgepack.context import BuildContext
from edgepack.foundry.link.program import ProgramSources
from edgepack.foundry.link.standalone import build_standalone
from edgepack.models.read.static import StaticTable
from edgepack.records.target import Platform
from edgepack.runner.freeze.sample_bundle import (
    sample_model,
    write_golden,
    write_manifest,
    write_sample,
)
from edgepack.runner.native.sources import program_with_encoder
from edgepack.runner.tokenizer.compile import compile_tokenizer
from edgepack_static.table import sources, write_table
from edgepack_windows.imports import require_imports
from edgepack_windows.pe import windows_program
from edgepack_windows.registers import require_no_thread_register
from tests.support.once import made_once
from tests.support.wine import required_wine, under_wine

WINDOWS = Platform(os="windows", arch="x86_64")


def slow_encoder() -> dict[str, str]:
    """The static builder's, a millisecond slower a batch: without a model requests were over before anybody could come between."""
    found = dict(sources())
    start = "    std::vector<float> sum(header_.dimension);\n"
    assert found["session.cc"].count(start) == 1
    text = found["session.cc"].replace(start, f"    usleep(1000);\n{start}")
    return {**found, "session.cc": f"#include <unistd.h>\n{text}"}


def build_program(context: BuildContext) -> bytes:
    """``embed.exe`` with its server. Compiles for most of a minute the first time."""
    wanted = ProgramSources(files=program_with_encoder(slow_encoder(), served=True), output="embed")
    elf = build_standalone(wanted, platform=WINDOWS, context=context) / "embed"
    require_no_thread_register(elf)
    program = windows_program(elf.read_bytes(), name="embed.exe")
    require_imports(program, name="embed.exe", serves=True)
    return program


def write_windows_sample(folder: Path, *, context: BuildContext) -> None:
    """The same vectors as the other samples' model makes, but for rounding; its file has the same name."""
    write_sample(folder)
    shutil.rmtree(folder / "lib")
    document = folder / "model/tokenizer.json"
    document.with_suffix(".bin").write_bytes(compile_tokenizer(document.read_text(encoding="utf-8")))
    document.unlink()
    (tensor,) = (
        each for each in onnx.load_model_from_string(sample_model()).graph.initializer if each.name == "table"
    )
    table = StaticTable(vectors=numpy_helper.to_array(tensor), rows=None, scales=None, unknown=None)
    write_table(table, "fp32", normalize=True, destination=folder / "model/model.onnx")
    program = folder / "embed.exe"
    program.write_bytes(build_program(context))
    program.chmod(0o755)
    write_manifest(folder, library="")
    command = [*under_wine(program), "--", "a cat", "the kitten sat", ""]
    done = subprocess.run(command, capture_output=True, check=True)
    write_golden(folder, {record["text"]: record["embedding"] for record in json.loads(done.stdout)})
    write_manifest(folder, library="")


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory, shared_context: BuildContext) -> Path:
    """For modules that try the program for Windows in the place of the others; not to be changed."""

    required_wine()

    def make(folder: Path) -> None:
        write_windows_sample(folder / "bundle", context=shared_context)

    return made_once(tmp_path_factory, "windows-sample", make) / "bundle"


@pytest.fixture(autouse=True)
def not_under_wine(request: pytest.FixtureRequest) -> None:
    """Skips what is not the program's, and what Windows or wine has not, with the reason."""
    name = request.node.name
    if reason := NOT_UNDER_WINE.get(name) or NOT_UNDER_WINE.get(name.partition("[")[0]):
        pytest.skip(reason)


PYTHON, MODES = "of the server in Python", "files have no modes there"
NOT_UNDER_WINE = {
    "test_serving_is_not_imported_to_embed": PYTHON,
    "test_tiny_chunks_let_others_have_their_turn": PYTHON,
    "test_who_else_may_know_or_set_the_token": MODES,
    "test_it_can_check_itself": "on a unix socket, too, which Windows' program has not",
    "test_a_unix_socket_is_its_owners_and_goes_with_the_server": "Windows' program has no unix sockets",
    "test_told_to_stop_it_answers_what_was_asked[15]": "wine ends a program at SIGTERM; Windows has no such signal",
    "test_told_twice_it_ends_at_once": "by SIGTERM",
}
"""Test → why it cannot be passed there."""
ON_WINDOWS = [
    pytest.mark.slow,
    pytest.mark.tools("zig", may=("c++", "python", "env", "wine64", "wineserver", "uname")),
]
"""Marks of such modules."""
