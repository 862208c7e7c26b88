"""What is remembered of bundles beside them, which may come with a folder that a stranger has made."""

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

import pytest

from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack.project.state_file import REMEMBERED, described, holds_installed, is_up_to_date, signing
from edgepack.records.bundle import Bundle


@pytest.mark.parametrize("name", ["pipe", "device", "folder", "missing", "../outside", "/dev/zero"])
def test_what_is_no_file_of_the_folder_is_not_as_it_was_made(
    tmp_path: Path, context: HostContext, name: str
) -> None:
    """A pipe would be waited for, and a device has no end."""
    output = tmp_path / "dist"
    (output / "bundle").mkdir(parents=True)
    os.mkfifo(output / "pipe")
    (output / "device").symlink_to("/dev/zero")
    (output / "folder").mkdir()
    (tmp_path / "outside").write_text("x")
    with pytest.raises(OSError, match="no file"):
        described(output, [name])
    known = {"key": "k", "digest": "d", "files": {name: {"size": 0, "sha256": "0" * 64}}, "delegates": []}
    (output / REMEMBERED).write_text(json.dumps({"bundle": known}))
    with signing(output / "bundle", context=context) as as_made:
        assert not as_made
    assert json.loads((output / REMEMBERED).read_text()) == {"bundle": known}


@pytest.mark.parametrize("kind", ["pipe", "device", "huge", "deep", "delegates"])
def test_a_memory_that_is_none_is_not_waited_for_nor_believed(tmp_path: Path, kind: str) -> None:
    """Everything is made again then."""
    file = tmp_path / REMEMBERED
    match kind:
        case "pipe":
            os.mkfifo(file)
        case "device":
            file.symlink_to("/dev/zero")
        case "huge":
            file.touch()
            os.truncate(file, 20 << 30)
        case "deep":
            file.write_text("[" * 100_000)
        case _:
            known = {"key": "k", "digest": "d", "files": {}, "delegates": [3]}
            file.write_text(json.dumps({"bundle": known}))
    assert not is_up_to_date(tmp_path / "bundle", "k", load_plugins())


@pytest.mark.parametrize("name", ["python", "pyinstaller", "tokenizers"])
def test_what_is_frozen_in_is_the_installed_one(name: str) -> None:
    """After a security update of Python a bundle with the old one was up to date."""

    def bundle(**versions: str) -> Bundle:
        return Bundle(directory=Path(), manifest={"runner": {"versions": versions}})

    installed = {
        "python": platform.python_version(),
        **{each: version(each) for each in ("pyinstaller", "tokenizers")},
    }
    assert holds_installed(bundle(**installed, trim="1")) and holds_installed(bundle())
    assert not holds_installed(bundle(**{**installed, name: "0.1"}))
