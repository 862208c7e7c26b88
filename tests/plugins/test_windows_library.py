"""embed.dll: what it exports and imports, and what a program for Windows finds when it calls it, under wine and not on Windows."""

import json
import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.once import made_once
from tests.support.windows_library import (
    CALLS,
    LIBRARY,
    build_library,
    compile_for_windows,
    write_library_sample,
)
from tests.support.wine import required_wine

from edgepack.foundry.toolchains.zig import zig_program
from edgepack.plugins.context import HostContext
from edgepack.runner.native.sources import EXPORTS
from edgepack_windows.imports import exports_of, imports_of, require_imports
from edgepack_windows.pe import LIBRARY_BASE
from edgepack_windows.wine import Wine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.tools(may=("zig", "clang", "ld.lld", "env", "wine64")),
]
CSRC = Path(__file__).parents[2] / "plugins/edgepack_windows/csrc"
DOCS = Path(__file__).parents[2] / "docs/windows.md"
HEADER = Path(__file__).parents[2] / "src/edgepack/runner/native/csrc/libembed/embed.h"
Call = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory, shared_context: HostContext) -> Path:
    """A bundle with the library, not to be changed."""

    def make(folder: Path) -> None:
        write_library_sample(folder / "bundle", context=shared_context)
        compile_for_windows(CALLS, folder / "calls.exe")

    return made_once(tmp_path_factory, "windows-library", make) / "bundle"


@pytest.fixture(scope="module")
def library(sample: Path) -> bytes:
    return (sample / LIBRARY).read_bytes()


@pytest.fixture
def wine() -> Wine:
    return required_wine()


@pytest.fixture
def calls(sample: Path, wine: Wine) -> Call:
    def run(test: str) -> subprocess.CompletedProcess[bytes]:
        words = ["env", "-i", *wine.command("x86_64"), sample.with_name("calls.exe")]
        return subprocess.run(
            [*words, sample / LIBRARY, test, f"Z:{sample}"], capture_output=True, check=False
        )

    return run


def test_it_exports_what_the_header_declares(library: bytes) -> None:
    assert exports_of(library) == tuple(sorted(EXPORTS))
    declared = re.findall(
        r"^EXPORT(?:_VOID)?\((?:[\w *]+, )?(\w+), \(", (CSRC / "exports.h").read_text(), re.M
    )
    assert sorted(declared) == sorted(EXPORTS)


def test_as_many_words_as_in_the_header(library: bytes) -> None:
    """A word that were missing would be read off the stack."""
    texts = {
        name: (CSRC / "exports.h").read_text() if name == "ours" else HEADER.read_text()
        for name in ("ours", "header")
    }
    found: dict[str, dict[str, int]] = {"ours": {}, "header": {}}
    for name, (before, after) in {"ours": (r"\b", r", \("), "header": (r"EMBED_API [\w *]*?", r"\(")}.items():
        for function in EXPORTS:
            matched = re.search(rf"{before}{function}{after}([^)]*)\)", texts[name])
            assert matched, (name, function)
            found[name][function] = matched[1].count(",")
    assert found["ours"] == found["header"]


def test_it_listens_to_nothing_and_does_not_end_its_process(library: bytes) -> None:
    require_imports(library, name="embed.dll")
    imported = {*imports_of(library)["KERNEL32.dll"]}
    assert "LoadLibraryW" not in imported and "CreateThread" in imported
    assert not imported & {
        *("ExitProcess", "TerminateProcess", "ExitThread", "SetConsoleCtrlHandler"),
        *("AddVectoredExceptionHandler", "GetCommandLineW", "GetProcessHeap"),
    }


def test_it_is_a_library_anywhere_in_64_bits(library: bytes) -> None:
    (at,) = struct.unpack_from("<I", library, 0x3C)
    assert struct.unpack_from("<H", library, at + 22)[0] & 0x2000
    assert struct.unpack_from("<Q", library, at + 24 + 24)[0] == LIBRARY_BASE
    assert struct.unpack_from("<H", library, at + 24 + 70)[0] & 0x160 == 0x160


@pytest.mark.parametrize("test", ["errors", "registers", "mode", "threads", "ending", "loads", "unclosed"])
def test_called_by_a_program_of_another_compiler(calls: Call, test: str) -> None:
    """Each of ``calls_library.c``, which says what is wrong."""
    done = calls(test)
    assert (done.returncode, done.stdout) == (0, b"right\n"), done


def test_the_proofs_caller_has_the_same_vectors(
    calls: Call, sample: Path, wine: Wine, shared_context: HostContext
) -> None:
    raw = calls("vectors").stdout
    assert len(raw) == 4 * struct.calcsize("<8f")
    texts = ["A man is eating food.", "A dog.", "\ufffd is no character", "Grüße"]
    lines = "".join(f"{text.encode().hex()}\n" for text in texts)
    caller = wine.library_caller(context=shared_context)
    command = ["env", "-i", *wine.command("x86_64"), caller, sample / LIBRARY]
    done = subprocess.run(command, input=lines.encode(), capture_output=True, check=True, cwd=sample)
    assert b"".join(bytes.fromhex(json.loads(line)) for line in done.stdout.splitlines()) == raw


def test_what_the_proofs_caller_cannot_do(
    sample: Path, wine: Wine, shared_context: HostContext, tmp_path: Path
) -> None:
    caller = wine.library_caller(context=shared_context)
    command = ["env", "-i", *wine.command("x86_64"), caller]
    for library, cwd, code, said in (
        (tmp_path / "none.dll", sample, 5, b"the library cannot be loaded\n"),
        (sample / LIBRARY, tmp_path, 4, b"manifest.json"),
    ):
        done = subprocess.run([*command, library], input=b"", capture_output=True, check=False, cwd=cwd)
        assert done.returncode == code and said in done.stderr and not done.stdout, done


LINKED = """
#include "embed.h"
__declspec(dllimport) void ExitProcess(unsigned code);
void start(void) {
  embed_bundle *bundle = 0;
  char error[100];
  int code = embed_open("Z:/no/such/bundle", 0, &bundle, error, sizeof error);
  embed_close(bundle);
  ExitProcess((unsigned)code + 40);
}
"""


def test_a_program_is_linked_by_the_import_library(sample: Path, wine: Wine, tmp_path: Path) -> None:
    (tmp_path / "linked.c").write_text(LINKED)
    words = [f"-I{sample / 'include'}", str(sample / "lib/embed.lib")]
    program = compile_for_windows(tmp_path / "linked.c", tmp_path / "linked.exe", *words)
    assert imports_of(program.read_bytes())["embed.dll"] == ("embed_close", "embed_open")
    (tmp_path / "embed.dll").symlink_to(sample / LIBRARY)
    command = ["env", "-i", *wine.command("x86_64"), program]
    assert subprocess.run(command, check=False, cwd=tmp_path).returncode == 44


def test_the_example_of_the_manual_compiles(sample: Path, tmp_path: Path) -> None:
    (text,) = re.findall(r"```c\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)
    (tmp_path / "example.c").write_text(text)
    command: list[str | Path] = [
        zig_program(),
        "cc",
        "-target",
        "x86_64-windows-gnu",
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Werror",
    ]
    command += [f"-I{sample / 'include'}", "-c", "example.c", "-o", "example.o"]
    subprocess.run(command, check=True, cwd=tmp_path)


def test_the_same_library_each_time(shared_context: HostContext, library: bytes) -> None:
    assert build_library(shared_context) == library
