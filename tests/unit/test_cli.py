"""What the command line says, and how it fails."""

import json
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path
from unittest.mock import create_autospec

import click
import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement
from tests.support.command import edgepack

from edgepack import python_api
from edgepack.cli import _in_two_lines, show_error
from edgepack.cli.building import build
from edgepack.cli.bundles import verify
from edgepack.cli.models import quantize
from edgepack.errors import EdgepackError
from edgepack.targets import target_of_this_machine
from edgepack.terminal_text import did_you_mean

pytestmark = pytest.mark.tools("python")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reference() -> str:
    """What the site shows of the commands; in a process of its own, for click keeps the help option of a command that a test called by itself."""
    code = "from tests.support.reference import command_help; print(command_help(), end='')"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True, cwd=ROOT
    ).stdout


@pytest.mark.parametrize("command", [[], ["bundle"], ["runtime", "lib"]], ids=" ".join)
def test_help_is_as_the_reference_shows_it(command: list[str], reference: str) -> None:
    done = edgepack(*command, "--help", env={"COLUMNS": "80", "NO_COLOR": "1"})
    assert done.returncode == 0
    assert f"\n## `{' '.join(['edgepack', *command])}`\n\n```text\n{done.stdout}```\n" in reference


@pytest.mark.parametrize(
    ("command", "taker", "words"),
    [
        (quantize, "quantize", ["model"]),
        (build, "build", ["model"]),
        (verify, "verify", ["bundle"]),
        (verify, "verify_on", ["bundle", "--on", "exec:sh"]),
        (verify, "check_device", ["bundle", "--require-device", "arm64"]),
        (verify, "check_signature", ["bundle", "--signature-only", "--key", __file__]),
    ],
)
def test_options_are_called_as_the_function_that_takes_them_calls_them(
    command: click.Command, taker: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function is called by its own signature, or the call fails otherwise."""
    taken = create_autospec(getattr(python_api, taker), side_effect=LookupError("taken"))
    monkeypatch.setattr(python_api, taker, taken)
    assert repr(CliRunner().invoke(command, words).exception) == "LookupError('taken')"


def test_version() -> None:
    from edgepack import __version__

    assert edgepack("--version").stdout == f"edgepack {__version__}\n"


def test_a_python_that_it_does_not_run_on_is_told_what_to_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where onnx and onnxruntime are not installed: their requirements leave such Pythons out."""
    import edgepack
    from edgepack.cli import main

    new = edgepack.wrong_python((3, 14))
    assert new is not None and edgepack.wrong_python((3, 13)) is None
    monkeypatch.setattr("edgepack.cli.wrong_python", lambda: new)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 9
    first, second = capsys.readouterr().err.splitlines()
    assert "this is 3.14" in first and "uv tool install --python 3.13 'edgepack[build]'" in second
    monkeypatch.setattr("edgepack.wrong_python", lambda: new)
    with pytest.raises(ImportError, match="uv tool install"):
        edgepack.bundle  # noqa: B018
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    left_out = [
        each.name
        for each in map(Requirement, project["dependencies"])
        if each.marker and not each.marker.evaluate({"python_version": "3.14", "sys_platform": "linux"})
    ]
    assert set(left_out) == {"onnx", "onnxruntime", "protobuf"}
    named = [each.rpartition(" ")[2] for each in project["classifiers"] if "Python :: 3." in each]
    assert tuple(named) == edgepack.PYTHONS


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["bundel"], 2, "error: No such command 'bundel'. Did you mean 'bundle'?"),
        (["bundle", "-t", "linux-x86-min", "a", "b"], 2, "error: Got two models: a and b"),
        (["inspect", "a", "-m", "b"], 2, "error: Got two models: a and b"),
        (
            ["bundle", "-t", "linux-x86-min", "--set", "budget.download=5"],
            3,
            "error: target linux-x86-min: budget.download is",
        ),
        (
            ["bundle", "-t", "linux-x86-min", "--set", "recipe=int8"],
            3,
            "error: target linux-x86-min: unknown option recipe",
        ),
        (["targets", "--jsn"], 2, "error: No such option '--jsn'. Did you mean '--json'?"),
        (["bundle", "-t", "linux-x86-mini"], 3, "error: there is no target linux-x86-mini (did you mean"),
        (["bundle", "-t", "./none.toml"], 3, "error: there is no target file none.toml"),
        (["bundle", "-t", "linux-x86-min", "--set", "model"], 2, "error: --set model: expected KEY=VALUE"),
        (["bundle", "-t", "raspberry-pi"], 3, "error: there is no target raspberry-pi"),
        (["quantize", "-r", "int9"], 3, "error: there is no recipe 'int9' (did you mean int8?)"),
        (["quantize", "-r", "INT8"], 3, "error: there is no recipe 'INT8' (did you mean int8?)"),
        (
            ["search", "-t", "web-wasm", "-r", "int9"],
            3,
            "error: there is no recipe 'int9' (did you mean int8?)",
        ),
        (["runtime", "lib", "-r", "int9"], 3, "error: there is no recipe 'int9' (did you mean int8?)"),
        (["runtime", "explain", "/usr"], 17, "error: /usr is not a bundle"),
        (["bundle", "-t", "linux-x86", "--recpie", "int8"], 2, "error: No such option '--recpie'."),
        (
            ["bundle", "-t", "linux-x64-tensorrt", "--capabilities", "9.0"],
            3,
            "error: target linux-x64-tensorrt: TensorRT-RTX has no engines for compute capability 9.0",
        ),
        (
            ["inspect", "--pooling", "median"],
            2,
            "error: Invalid value for '--pooling': 'median' is not one of",
        ),
        (
            ["inspect", "--prompt", "clustering=x"],
            2,
            "error: Invalid value for '--prompt': 'clustering' is not",
        ),
        (["inspect", "--prompt", "query"], 2, "error: Invalid value for '--prompt': 'query' is not"),
        (["cache", "clean", "cookies"], 2, "error: the cache holds no cookies"),
    ],
)
def test_a_mistake_is_two_lines_and_an_exit_code(
    arguments: list[str], code: int, error: str, tmp_path: Path
) -> None:
    done = edgepack(*arguments, env={"EDGEPACK_CACHE": str(tmp_path)})
    assert done.returncode == code
    first, second = done.stderr.splitlines()
    assert first.startswith(error)
    assert second.startswith("hint: ")
    assert done.stdout == ""


def test_a_bundle_s_program_is_named_for_what_it_does() -> None:
    assert "`dist/BUNDLE/embed serve --help`" in edgepack("serve").stderr


def test_a_stranger_s_word_of_megabytes_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    show_error(EdgepackError(f"first {'x' * 3_000_000} last"))
    said = capsys.readouterr().err
    assert len(said) < 30_000
    assert said.startswith("error: first x")
    assert said.endswith("x last\n")


@pytest.mark.parametrize("command", ["bundle", "diff", "cache clean"])
def test_an_option_without_its_value_is_told_the_help_of_its_command(command: str) -> None:
    from edgepack.cli import _command_of

    assert _command_of([*command.split(), "-x", "y"]) == f"edgepack {command}"


def test_nothing_is_near_what_shares_few_letters() -> None:
    assert did_you_mean("badt", ["web-fast", "linux-x86"]) == ""
    assert did_you_mean("INT8", ["int8", "int4"]) == " (did you mean int8?)"


@pytest.mark.slow
def test_a_target_that_is_not_there_is_told_those_that_are() -> None:
    hint = edgepack("bundle", "-t", "raspberry-pi").stderr.splitlines()[1]
    assert "linux-arm64-min" in hint and "linux-riscv64-min" in hint


@pytest.mark.slow
def test_a_key_of_the_target_that_is_taken_for_an_option_is_told_its_table() -> None:
    done = edgepack("bundle", "-t", "linux-x86-min", "--set", "recipe=int8")
    assert done.stderr.splitlines()[1].endswith("--set model.recipe=int8")


def test_search_takes_a_target_of_this_machine_without_one(tmp_path: Path) -> None:
    done = edgepack(
        "search", "no-such-model", "--set", "model.recipe=5", env={"EDGEPACK_CACHE": str(tmp_path)}
    )
    assert (
        done.stderr.splitlines()[0]
        == f"target: {target_of_this_machine()}, the default for this machine; `edgepack inspect` compares all"
    )
    assert done.returncode == 3, done.stderr


def test_models_and_recipes_are_listed() -> None:
    models = {row["model"]: row for row in json.loads(edgepack("models", "--json").stdout)}
    assert models["sentence-transformers/all-MiniLM-L6-v2"]["pinned"] == "by SHA-256"
    recipes = {row["recipe"]: row for row in json.loads(edgepack("recipes", "--json").stdout)}
    assert recipes["int8"]["passes"].split(", ")[-1] == "int8-dynamic"
    assert recipes["int8"]["origin"] == "edgepack"
    lines = edgepack("recipes").stdout.splitlines()
    assert max(len(line) for line in lines if "{ pass" not in line) in range(80, 101)


def test_every_error_has_an_exit_code_of_its_own() -> None:
    from edgepack import errors

    codes = [kind.exit_code for kind in errors.EdgepackError.__subclasses__()]
    assert len(codes) == len(set(codes)) >= 17
    assert 0 not in codes


@pytest.mark.slow
def test_an_unforeseen_failure_is_no_traceback_without_debug(tmp_path: Path) -> None:
    target = tmp_path / "mine.toml"
    target.write_bytes(b"schema = 1\nbuilder = '\xff'")
    done = edgepack("bundle", "-t", str(target))
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


def test_a_folder_that_was_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(FileNotFoundError) as raised:
        Path.cwd()
    assert _in_two_lines(raised.value).message == "the current folder was removed"


def test_a_full_disk_of_the_output_is_not_taken_for_that_of_temporary_files() -> None:
    full = Path("/dev/full").open("w")  # noqa: SIM115 - closing it fails, too
    with pytest.raises(OSError, match="No space") as raised:
        click.echo("a line", file=full)
    with suppress(OSError):
        full.close()
    assert _in_two_lines(raised.value).message == "no space left where the output goes"


def test_targets_as_json() -> None:
    rows = {row["target"]: row for row in json.loads(edgepack("targets", "--json").stdout)}
    assert rows["linux-x86-min"]["origin"] == "edgepack"


KEY = "0123456789" * 4


@pytest.mark.slow
def test_the_cache_is_shown_and_cleaned(tmp_path: Path) -> None:
    env = {"EDGEPACK_CACHE": str(tmp_path)}
    for kind, size in [("models", 1000), ("runners", 24)]:
        (tmp_path / kind / KEY).mkdir(parents=True)
        (tmp_path / kind / KEY / "file").write_bytes(bytes(size))
    for place in (tmp_path / "photos/a.jpg", tmp_path / "models/mine.txt"):
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(b"mine")
    assert edgepack("cache", "where", env=env).stdout == f"{tmp_path}\n"
    shown = json.loads(edgepack("cache", "--json", env=env).stdout)
    assert shown == {"path": str(tmp_path), "bytes": 1024, "kinds": {"models": 1000, "runners": 24}}
    assert json.loads(edgepack("cache", "clean", "models", "--json", env=env).stdout) == {"freed_bytes": 1000}
    assert json.loads(edgepack("cache", "--json", env=env).stdout)["kinds"] == {"runners": 24}
    edgepack("cache", "clean", env=env)
    assert json.loads(edgepack("cache", "--json", env=env).stdout)["bytes"] == 0
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.jpg", "mine.txt", "models", "photos"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    assert "_EDGEPACK_COMPLETE" in edgepack("completion", shell).stdout


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("shell", "word", "answer"),
    [
        ("bash", "3", "plain,linux-riscv64-min\n"),
        ("zsh", "3", "plain\nlinux-riscv64-min\n_\n"),
        ("fish", "linux-riscv64-m", "plain,linux-riscv64-min\n"),
    ],
)
def test_completion_completes_targets(shell: str, word: str, answer: str) -> None:
    env = {
        "_EDGEPACK_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "edgepack bundle --target linux-riscv64-m",
        "COMP_CWORD": word,
    }
    done = edgepack(env=env)
    assert (done.stdout, done.stderr) == (answer, "")


def test_completion_completes_commands_of_plugins() -> None:
    env = {"_EDGEPACK_COMPLETE": "bash_complete", "COMP_WORDS": "edgepack se", "COMP_CWORD": "1"}
    assert edgepack(env=env).stdout.split() == ["plain,search", "plain,serve-web"]


def test_an_error_cannot_steer_the_terminal(tmp_path: Path) -> None:
    done = edgepack("verify", str(tmp_path / "\x1b]0;owned\x07"))
    assert done.returncode == 17
    assert "\\x1b]0;owned\\x07" in done.stderr
    assert "\x1b" not in done.stderr


def test_an_interrupt_that_a_native_module_makes_another_exception_of_is_one(tmp_path: Path) -> None:
    code = """
import os, signal, sys
import edgepack.cli, edgepack.cli.listed
def imported(*arguments):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        raise ImportError("initialization failed") from None
edgepack.cli.listed.cache_sizes = imported
sys.argv = ["edgepack", "cache"]
edgepack.cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted; no partial output was left behind\n")
