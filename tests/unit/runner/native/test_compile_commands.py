"""What an editor opens the C++ with."""

import subprocess
from pathlib import Path

import pytest
from tests.support.compile_commands import CSRC, LEFT_OUT, commands, write_generated


@pytest.mark.tools("c++")
def test_an_editor_can_open_every_source(tmp_path: Path) -> None:
    write_generated(tmp_path)
    found = {str(each["file"]): each["arguments"] for each in commands(tmp_path)}
    sources = {str(file) for file in CSRC.rglob("*") if file.suffix in (".cc", ".c")}
    assert {str(CSRC / name) for name in LEFT_OUT} == sources - found.keys()
    # One that includes what is generated, and one of a plugin.
    for name in ("program/options.cc", "edgepack_static/csrc/encoder.cc"):
        (arguments,) = (words for file, words in found.items() if file.endswith(name))
        assert isinstance(arguments, list)
        subprocess.run([*arguments, "-fsyntax-only"], check=True)
