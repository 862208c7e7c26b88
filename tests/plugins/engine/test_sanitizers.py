"""The kernels' tests and the session's, compiled with gcc's sanitizers: nothing is found, and what is wrong on purpose is."""

import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.fuzz.native import SANITIZERS
from tests.support import engine_kernels, engine_session
from tests.support.engine_tried import tried

from edgepack_engine.builder import sources

pytestmark = [
    pytest.mark.slow,
    pytest.mark.tools("g++", "python"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="compiles for x86-64"),
]
GCC = ("g++", "-Wno-unknown-pragmas", "-Wno-psabi")
THREADS = ("-O1", "-g", "-fsanitize=thread")
FOR = {
    "avx512": ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni", "-mfma"),
    "avxvnni": ("-mavx2", "-mavxvnni", "-mfma"),
    "avx2": ("-mavx2", "-mfma"),
    "sse41": ("-msse4.1",),
    "base": (),
}
"""gcc's words for what ``#pragma clang attribute`` says in a level's file."""


ALL_LEVELS = ("--slow", "-k", "not 3000 and not neon and not dotprod and not i8mm")
"""Without the first, a test of kernels takes a sample of the levels."""


def environment(runtime: str) -> Mapping[str, str]:
    """A sanitizer's library must be loaded before all others, and what it finds exceptions in before who throws some."""
    found = [
        subprocess.run(
            ["g++", f"-print-file-name={name}"], capture_output=True, encoding="utf-8", check=True
        ).stdout.strip()
        for name in (runtime, "libstdc++.so.6")
    ]
    return {
        "LD_PRELOAD": " ".join(found),
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=1",
        "TSAN_OPTIONS": "halt_on_error=1",
    }


def changed(file: str, now: str, then: str) -> Mapping[str, str]:
    source = dict(sources())[file]
    assert source.count(now) == 1, now
    return {file: source.replace(now, then)}


def kernels(folder: Path, level: str, change: Mapping[str, str] | None = None) -> Path:
    if not engine_kernels.has_level(level):
        pytest.skip(f"this processor has no {engine_kernels.NEEDS[level]}")
    flags = (*SANITIZERS, *FOR[level])
    return engine_kernels.compile_kernels(folder / "kernels.so", [level], change, by=GCC, flags=flags)


def session(folder: Path, flags: Sequence[str], change: Mapping[str, str] | None = None) -> Path:
    return engine_session.compile_session(folder / "session.so", change, by=GCC, flags=flags)


@pytest.mark.parametrize("level", FOR)
def test_kernels_read_and_write_what_is_theirs(tmp_path: Path, level: str) -> None:
    library = kernels(tmp_path, level)
    done = tried(
        [*ALL_LEVELS, "test_kernels.py"], engine_kernels.LIBRARY, library, env=environment("libasan.so")
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_room_that_is_too_small_is_found(tmp_path: Path) -> None:
    change = changed("attention.inc", "float scores[ROWS * KEYS];", "float scores[ROWS * KEYS - 1];")
    library = kernels(tmp_path, "base", change)
    done = tried(
        [*ALL_LEVELS, "test_kernels.py::test_attention"],
        engine_kernels.LIBRARY,
        library,
        env=environment("libasan.so"),
    )
    assert done.returncode
    assert "AddressSanitizer: stack-buffer-overflow" in done.stderr


def test_the_session_reads_and_writes_what_is_its_own(tmp_path: Path) -> None:
    library = session(tmp_path, SANITIZERS)
    done = tried(["test_session.py"], engine_session.LIBRARY, library, env=environment("libasan.so"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_threads_share_nothing_that_one_of_them_writes(tmp_path: Path) -> None:
    library = session(tmp_path, THREADS)
    done = tried(["test_session.py"], engine_session.LIBRARY, library, env=environment("libtsan.so"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_room_that_threads_share_is_found(tmp_path: Path) -> None:
    change = changed("session.cc", "+ lane * work.room;", "+ 0 * lane * work.room;")
    library = session(tmp_path, THREADS, change)
    test = "test_session.py::test_threads_that_share_texts_change_no_bit"
    done = tried([test], engine_session.LIBRARY, library, env=environment("libtsan.so"))
    assert done.returncode
    assert "ThreadSanitizer: data race" in done.stderr
