"""Where Python's shared library comes from when the interpreter has it built in."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from edgepack.console import Story
from edgepack.errors import MissingToolError, ToolError
from edgepack.files.store import Store
from edgepack.plugins.context import HostContext, host_context
from edgepack.runner.freeze import python_library as subject

pytestmark = pytest.mark.tools("ldd", may=("file",))


@pytest.fixture
def online(tmp_path: Path) -> HostContext:
    with host_context(story=Story(quiet=True), offline=False, store=Store(root=tmp_path)) as made:
        return made


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A Python whose shared library is not installed, from Debian."""
    monkeypatch.setattr(subject, "installed_library", lambda: None)
    monkeypatch.setattr(subject, "is_debian_python", lambda: True)
    monkeypatch.setattr(subject, "is_installed", lambda name: True)
    return monkeypatch


def test_an_installed_library_is_taken(context: HostContext, tmp_path: Path) -> None:
    found = subject.python_library(tmp_path, context=context)
    assert found.name.startswith("libpython3.")
    assert found.is_file()


def test_a_python_built_without_one_is_refused(
    context: HostContext, without: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without.setattr(subject, "is_debian_python", lambda: False)
    with pytest.raises(MissingToolError) as caught:
        subject.python_library(tmp_path, context=context)
    assert "--enable-shared" in str(caught.value.hint)


def test_offline_the_hint_names_the_package(
    context: HostContext, without: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(MissingToolError) as caught:
        subject.python_library(tmp_path, context=context)
    assert caught.value.hint == f"apt-get install {subject.PACKAGE}"


class Apt:
    """apt-get and dpkg as far as they matter here."""

    offline = False

    def __init__(self, *, works: bool) -> None:
        self.works = works
        self.notes: list[str] = []

    def run(self, command: Sequence[str | Path], *, cwd: Path | None = None, **_: object) -> str:
        if command[0] == "apt-get":
            if not self.works:
                raise ToolError("apt-get failed with exit code 100:\nE: Unable to locate package")
            assert cwd is not None
            (cwd / f"{subject.PACKAGE}_1_amd64.deb").touch()
        else:
            library = Path(command[3]) / f"usr/lib/x86_64-linux-gnu/{subject.PACKAGE}.so.1.0"
            library.parent.mkdir(parents=True)
            library.touch()
        return ""

    def note(self, message: str) -> None:
        self.notes.append(message)


def test_debians_package_is_unpacked_without_root(without: pytest.MonkeyPatch, tmp_path: Path) -> None:
    apt = Apt(works=True)
    found = subject.python_library(tmp_path / "python", context=apt)  # type: ignore[arg-type]
    assert found.is_relative_to(tmp_path)
    assert found.is_file()
    assert apt.notes


def test_what_apt_says_is_passed_on(without: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(MissingToolError) as caught:
        subject.python_library(tmp_path, context=Apt(works=False))  # type: ignore[arg-type]
    assert "Unable to locate" in caught.value.message
    assert caught.value.hint == f"apt-get install {subject.PACKAGE}"
