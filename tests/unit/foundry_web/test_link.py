"""The JavaScript of a runtime with threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgepack.errors import ToolError
from edgepack.foundry.web.emscripten import Emscripten
from edgepack.foundry.web.link import offered_symbols, own_workers, settings


def test_threads_start_from_the_module_itself_whatever_it_is_called() -> None:
    script = 'a();worker=new Worker(new URL("ort.mjs",import.meta.url),options);b()'
    assert own_workers(script) == "a();worker=new Worker(new URL(import.meta.url),options);b()"


@pytest.mark.parametrize("script", ["a()", 'new Worker(new URL("a.mjs",import.meta.url))' * 2])
def test_another_emscripten_is_refused(script: str) -> None:
    with pytest.raises(ToolError, match="not as it was"):
        own_workers(script)


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
    monkeypatch.setattr("edgepack.foundry.web.link.archive_symbols", lambda path: frozenset({path.name}))
    assert offered_symbols(tools) == {"libc.a", "libc++-noexcept.a", "libal.a"}
    assert offered_symbols(tools, threads=True) == {"libc-mt.a", "libc++-mt-noexcept.a", "libal.a"}
