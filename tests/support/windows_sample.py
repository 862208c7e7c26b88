"""The sample bundle for Windows: the native program with its server, and a table of vectors in the model's and the runtime's place."""

import json
import subprocess
from pathlib import Path

import pytest

from edgepack.context import BuildContext
from edgepack.foundry.link.standalone import build_standalone
from edgepack.foundry.units import ProgramSources
from edgepack.records.target import Platform
from edgepack.runner.freeze.sample_bundle import write_golden, write_manifest
from edgepack.runner.native.sources import own_encoder, program_sources
from edgepack_static.table import sources
from edgepack_windows.imports import require_imports
from edgepack_windows.pe import windows_program
from edgepack_windows.registers import require_no_thread_register
from tests.support.table_sample import write_table_sample
from tests.support.wine import under_wine

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


def build_program(context: BuildContext, *features: str) -> bytes:
    """``embed.exe``. Compiles for most of a minute the first time."""
    wanted = ProgramSources(files=program_sources(own_encoder(slow_encoder()), features), output="embed")
    elf = build_standalone(wanted, platform=WINDOWS, context=context) / "embed"
    require_no_thread_register(elf)
    program = windows_program(elf.read_bytes(), name="embed.exe")
    require_imports(program, name="embed.exe", serves="serve" in features)
    return program


def lay_program(folder: Path, content: bytes) -> Path:
    """As a file that can be run."""
    program = folder / "embed.exe"
    program.write_bytes(content)
    program.chmod(0o755)
    return program


def write_windows_sample(folder: Path, *, context: BuildContext) -> None:
    write_table_sample(folder)
    program = lay_program(folder, build_program(context, "serve"))
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


INSIDE = "the runtime is in the program: there is no library"
SIGTERM = "wine ends a program at SIGTERM; Windows has no such signal"
CLOSED = "wine opens a folder of its own in a closed file's place"
BYTES = "bytes in the command line, which is UTF-16 there"
NOT_UNDER_WINE = {
    # The server.
    "test_who_else_may_know_or_set_the_token": "files have no modes there",
    "test_another_users_token_file_is_refused": "files have no owners there",
    "test_a_unix_socket_is_its_owners_and_goes_with_the_server": "there are no unix sockets",
    "test_what_is_no_socket_is_left_where_it_is": "there are no unix sockets",
    "test_answers_that_nobody_reads_do_not_fill_the_memory": "there are no unix sockets",
    "test_a_server_that_ends_leaves_the_socket_of_the_next_one": "there are no unix sockets",
    "test_told_to_stop_it_answers_what_was_asked[15]": SIGTERM,
    "test_told_twice_it_ends_at_once": f"{SIGTERM}; test_windows.py has Ctrl-C",
    "test_streams_that_do_not_wait_are_waited_for": "its pipes always wait",
    # The runtime.
    "test_libembed_gives_all_from_one_call": "of Linux' libembed",
    "test_a_missing_file_is_named[library]": INSIDE,
    "test_a_file_cut_short_is_named[library]": INSIDE,
    "test_a_library_that_is_none_is_said_to_be_so": INSIDE,
    # What its bundles have not, and what Windows, or wine, does otherwise.
    "test_a_listed_link_that_leads_out_of_the_bundle_is_damage": "its bundles have no links: each is damage",
    "test_a_model_that_is_cut_short_under_the_program_is_a_message": "Windows lets nobody cut a mapped file",
    "test_a_signature_is_asked_for": "it cannot check signatures, and says so",
    "test_a_closed_standard_input_is_an_error": CLOSED,
    "test_a_closed_standard_output_is_an_error": CLOSED,
    "test_an_argument_that_is_not_utf8_is_refused_when_strict": BYTES,
    "test_npy_onto_an_appended_output_is_refused": "nothing says before that a file is appended to",
    "test_a_signal_ends_it_quietly_and_leaves_no_half_file[15]": SIGTERM,
    "test_told_to_stop_it_leaves_no_half_of_an_index[15]": SIGTERM,
    "test_what_was_ignored_at_the_start_stays_ignored": "wine makes Ctrl-C of SIGINT even where it was ignored",
}
"""Test → why it cannot be passed there."""
UNDER_WINE = [
    pytest.mark.slow,
    pytest.mark.tools("zig", may=("c++", "python", "sh", "bash", "env", "wine64", "wineserver", "uname")),
]
"""Marks of tests of the program for Windows."""


def why_not_under_wine(test: pytest.Function) -> str | None:
    """Why a test is none of the program for Windows; None: it is, or is one of another program."""
    if not hasattr(test, "callspec") or test.callspec.params.get("sample") != "windows":
        return None
    case = "-".join(part for part in test.callspec.id.split("-") if part != "windows")
    return NOT_UNDER_WINE.get(f"{test.originalname}[{case}]") or NOT_UNDER_WINE.get(test.originalname)
