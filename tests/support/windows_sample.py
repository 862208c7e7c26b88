"""The sample bundle for Windows: the native program with its server, and a table of vectors in the model's and the runtime's place."""

import json
import shutil
import subprocess
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper

from edgepack.context import BuildContext
from edgepack.foundry.link.sources import ProgramSources
from edgepack.foundry.link.standalone import build_standalone
from edgepack.models.read.static import StaticTable
from edgepack.records.target import Platform
from edgepack.runner.freeze.sample_bundle import (
    sample_model,
    write_golden,
    write_manifest,
    write_sample,
)
from edgepack.runner.native.sources import own_encoder, program_sources
from edgepack.runner.tokenizer.compile import compile_tokenizer
from edgepack_static.table import sources, write_table
from edgepack_windows.imports import require_imports
from edgepack_windows.pe import windows_program
from edgepack_windows.registers import require_no_thread_register
from tests.support.once import made_once
from tests.support.wine import required_wine, under_wine

WINDOWS = Platform(os="windows", arch="x86_64")


def slow_encoder() -> dict[str, str]:
    """The static builder's, a millisecond slower a batch: without a model requests were over before anybody could come between.

    It gives what each token has, too: its row.
    """
    found = dict(sources())
    start = "    std::vector<float> sum(header_.dimension);\n"
    signature = "std::vector<float> &vectors, TokenVectors *) const {\n"
    assert (found["encoder.cc"].count(start), found["encoder.cc"].count(signature)) == (1, 1)
    text = found["encoder.cc"].replace(start, f"    usleep(1000);\n{start}")
    text = text.replace(signature, signature.replace("*)", "*tokens)") + TOKENS_TOO)
    return {**found, "encoder.cc": f"#include <unistd.h>\n{text}"}


TOKENS_TOO = """
    for (size_t at = 0; tokens && at < batch.ids.size(); at++) {
        std::vector<float> row(std::max<size_t>(tokens->width, header_.dimension));
        add(uint32_t(batch.ids[at]), row.data());
        tokens->numbers.insert(tokens->numbers.end(), row.begin(), row.begin() + ptrdiff_t(tokens->width));
    }
"""


def program_files(*features: str) -> dict[str, str]:
    """Place below ``csrc`` → text, of a program with these features."""
    return program_sources(own_encoder(slow_encoder()), features)


def build_program(
    context: BuildContext, *, served: bool = True, scored: bool = False, given: bool = False
) -> bytes:
    """``embed.exe``. Compiles for most of a minute the first time."""
    chosen = {"serve": served, "scores": scored, "outputs": given}
    files = program_files(*(name for name, wanted in chosen.items() if wanted))
    wanted = ProgramSources(files=files, output="embed")
    elf = build_standalone(wanted, platform=WINDOWS, context=context) / "embed"
    require_no_thread_register(elf)
    program = windows_program(elf.read_bytes(), name="embed.exe")
    require_imports(program, name="embed.exe", serves=served)
    return program


def lay_program(folder: Path, content: bytes) -> Path:
    """As a file that can be run."""
    program = folder / "embed.exe"
    program.write_bytes(content)
    program.chmod(0o755)
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
    program = lay_program(folder, build_program(context))
    write_windows_manifest(folder)
    command = [*under_wine(program), "--", "a cat", "the kitten sat", ""]
    done = subprocess.run(command, capture_output=True, check=True)
    write_golden(folder, {record["text"]: record["embedding"] for record in json.loads(done.stdout)})
    write_windows_manifest(folder)


def write_windows_manifest(folder: Path) -> None:
    """The other samples' manifest, but for the platform and the program's name."""
    write_manifest(folder, library="")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["target"]["platform"] |= {"os": WINDOWS.os, "arch": WINDOWS.arch}
    manifest["runner"] |= {"program": "embed.exe", "kind": "native"}
    manifest["runtime"]["library"] = "embed.exe"
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))


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


OTHER, MODES = "what is run is not the program alone", "files have no modes there"
INSIDE = "the runtime is in the program: there is no library"
OWN = "has a test of its own in windows/"
SIGTERM = "wine ends a program at SIGTERM; Windows has no such signal"
CLOSED = "wine opens a folder of its own in a closed file's place"
NOT_UNDER_WINE = {
    # The server.
    "test_who_else_may_know_or_set_the_token": MODES,
    "test_it_can_check_itself": f"on a unix socket, too, which Windows' program has not; {OWN}",
    "test_a_unix_socket_is_its_owners_and_goes_with_the_server": "Windows' program has no unix sockets",
    "test_told_to_stop_it_answers_what_was_asked[15]": SIGTERM,
    "test_told_twice_it_ends_at_once": f"by SIGTERM: {SIGTERM}; {OWN}",
    # What is run is not the program.
    "test_a_record_with_quotes_is_sound_json": OTHER,
    "test_a_bundle_with_the_library_s_own_file_is_not_asked": OTHER,
    "test_a_longer_list_is_shown_from_where_the_other_ends": "of the check, which runs no program",
    "test_systemd_takes_the_unit_with_and_without_the_token": "of systemd's file, which runs no program",
    "test_libembed_gives_all_from_one_call": "of libembed",
    # The runtime.
    "test_a_missing_file_is_named[library]": INSIDE,
    "test_a_file_cut_short_is_named[library]": INSIDE,
    "test_a_library_that_is_none_is_said_to_be_so": INSIDE,
    "test_a_model_that_is_none_is_said_to_be_so": f"by ONNX Runtime; the table {OWN}",
    "test_info_as_json_has_sizes_in_place_of_files": f"{INSIDE}; {OWN}",
    # What Windows, or wine, does otherwise.
    "test_info_says_what_the_bundle_is": f"names Linux; {OWN}",
    "test_a_native_program_without_a_server_says_so": f"compiles Linux' program; {OWN}",
    "test_a_closed_standard_input_is_an_error": CLOSED,
    "test_a_closed_standard_output_is_an_error": CLOSED,
    "test_what_is_not_utf8_is_refused_when_strict": f"bytes in the command line, which is UTF-16 there; lines: {OWN}",
    "test_npy_onto_an_appended_output_is_refused": f"nothing says before that a file is appended to; what then happens {OWN}",
    "test_a_reader_that_goes_away_ends_it_without_a_word": f"ends by SIGPIPE; {OWN}",
    "test_a_signal_ends_it_quietly_and_leaves_no_half_file[2]": f"ends by SIGINT; {OWN}",
    "test_a_signal_ends_it_quietly_and_leaves_no_half_file[15]": SIGTERM,
    "test_an_interrupt_ends_it_while_it_waits_for_a_line": f"ends by SIGINT; {OWN}",
    "test_what_was_ignored_at_the_start_stays_ignored": "wine makes Ctrl-C of SIGINT even where it was ignored",
    "test_a_table_is_as_wide_as_the_terminal": f"wine's console says more to a terminal; {OWN}",
    "test_told_to_stop_it_leaves_no_half_of_an_index": f"by SIGTERM: {SIGTERM}; {OWN}",
}
"""Test → why it cannot be passed there."""
ON_WINDOWS = [
    pytest.mark.slow,
    pytest.mark.tools("zig", may=("c++", "python", "sh", "bash", "env", "wine64", "wineserver", "uname")),
]
"""Marks of such modules."""
