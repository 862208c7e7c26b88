"""A library that does not load on this system: which, and why, in a sentence."""

import os
import shutil
from pathlib import Path

import pytest
from tests.support.sample_program import complaint, library_of, run_program
from tests.unit.runner.test_program import replace

from edgepack.files.elf import glibc_floor
from edgepack.runner.frozen.base.load_errors import why_not_loaded

pytestmark = pytest.mark.tools("python")


@pytest.fixture
def copy(frozen_sample: Path, tmp_path: Path) -> Path:
    """A bundle of the program in Python: the native one has its library inside."""
    return Path(shutil.copytree(frozen_sample, tmp_path / "bundle"))


def test_a_library_for_another_processor(copy: Path) -> None:
    name = library_of(copy)
    content = bytearray((copy / name).read_bytes())
    content[18:20] = (183).to_bytes(2, "little")
    (copy / name).unlink()
    replace(copy, name, bytes(content))
    done = run_program(copy, "a cat")
    assert done.returncode == 5
    assert f"{Path(name).name} is for aarch64, this system is {os.uname().machine}" in complaint(done)[0]


def test_a_library_for_a_newer_c_library(copy: Path) -> None:
    name = library_of(copy)
    content = (copy / name).read_bytes()
    newest = f"GLIBC_{glibc_floor(copy / name)}".encode() + b"\0"
    (copy / name).unlink()
    replace(copy, name, content.replace(newest, b"GLIBC_9" + newest[7:]))
    done = run_program(copy, "a cat")
    assert done.returncode == 5
    message, hint = complaint(done)
    assert "needs glibc 9." in message
    assert f"this system has {os.confstr('CS_GNU_LIBC_VERSION').split()[1]}" in message  # type: ignore[union-attr]
    assert "platform.glibc" in hint


@pytest.mark.parametrize("content", [None, b"", b"\x7fELF", b"not a library"])
def test_what_is_no_library_is_told_in_the_loaders_words(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "lib.so"
    if content is not None:
        path.write_bytes(content)
    message, hint = why_not_loaded(str(path), "file too short")
    assert message == "the model does not load: file too short"
    assert "--self-test" in hint
