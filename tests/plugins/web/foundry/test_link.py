"""The JavaScript of a runtime with threads."""

from pathlib import Path

import pytest

from edgepack.errors import ToolError
from edgepack_web.foundry.emscripten import Emscripten
from edgepack_web.foundry.link import offered_symbols, placeless, settings

BINARY = "wasmBinaryFile??=findWasmBinary();"
WORKER = 'worker=new Worker(new URL("ort.mjs",import.meta.url),options);'


def test_a_module_that_is_given_its_webassembly_makes_up_no_address_for_it() -> None:
    assert placeless(f"a();{BINARY}b()") == "a();wasmBinaryFile??=wasmBinary?'':findWasmBinary();b()"


def test_threads_start_from_the_module_itself_whatever_it_is_called() -> None:
    made = placeless(f"{BINARY}{WORKER}b()", threads=True)
    assert made.endswith("worker=new Worker(new URL(import.meta.url),options);b()")


@pytest.mark.parametrize(
    ("script", "threads"),
    [("a()", False), (BINARY * 2, False), (BINARY, True), (BINARY + WORKER * 2, True), (WORKER, True)],
)
def test_another_emscripten_is_refused(script: str, threads: bool) -> None:
    with pytest.raises(ToolError, match="not as it was"):
        placeless(script, threads=threads)


def test_one_thread_has_no_pool() -> None:
    assert "PTHREAD_POOL_SIZE" not in settings(threads=False)
    assert "numThreads" in settings(threads=True)["PTHREAD_POOL_SIZE"]


def test_libraries_with_threads_stand_for_those_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = Emscripten(root=tmp_path, version="3", zig=tmp_path, zig_version="0")
    tools.libraries.mkdir(parents=True)
    for name in ("libc.a", "libc-mt.a", "libc++-noexcept.a", "libc++-mt-noexcept.a", "libal.a"):
        (tools.libraries / name).write_bytes(b"")
    monkeypatch.setattr("edgepack_web.foundry.link.archive_symbols", lambda path: frozenset({path.name}))
    assert offered_symbols(tools) == {"libc.a", "libc++-noexcept.a", "libal.a"}
    assert offered_symbols(tools, threads=True) == {"libc-mt.a", "libc++-mt-noexcept.a", "libal.a"}
