"""What `--help` shows, and what the tab key offers."""

import json
import re
import shlex
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from tests.support.reference import commands

from edgepack.cli import cli
from edgepack.cli.help import OTHERS

COMMANDS = commands()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_ends_with_an_example_that_can_be_typed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, heading, examples = COMMANDS[name].get_help().partition("\n  Example")
    assert heading, "no example"
    typed = [shlex.split(line) for line in examples.splitlines()[1:]]
    assert typed
    for words in typed:
        assert " ".join(words).startswith(name)
        for word in words:
            if re.fullmatch(r"[\w-]+[./][\w./-]+", word):
                Path(word).parent.mkdir(exist_ok=True, parents=True)
                Path(word).touch()
        if words[1] != "COMMAND":
            require_parsed(words[1:])


def require_parsed(words: list[str]) -> None:
    """Click raises its errors for what a command does not understand."""
    context = cli.make_context("edgepack", words)
    while isinstance(context.command, click.Group):
        words = [*context._protected_args, *context.args]
        if not words:
            return
        name, command, rest = context.command.resolve_command(context, words)
        assert command is not None
        context = command.make_context(name, rest, parent=context)
    assert not [word for word in context.args if word.startswith("-")]


def test_every_command_is_in_a_topic_and_none_is_cut() -> None:
    shown = COMMANDS["edgepack"].get_help()
    assert f"\n{OTHERS}:\n" not in shown
    assert "..." not in shown.partition("\nBundles:")[2]
    assert set(cli.commands) == {name for names in cli.topics.values() for name in names}
    assert all(len(line) <= 80 for line in shown.splitlines())


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """What the tab key offers behind words."""
    monkeypatch.setenv("EDGEPACK_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache/runners" / ("0" * 40)).mkdir(parents=True)
    (tmp_path / "cache/locks").mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edgepack.toml").write_text('[[bundle]]\nmodel = "./mine"\ntargets = ["web-wasm"]\n')
    complete = ShellComplete(cli, {}, "edgepack", "_EDGEPACK_COMPLETE")

    def ask(*words: str) -> list[str]:
        *before, incomplete = words
        found = complete.get_completions(before, incomplete)
        return [item.value for item in found if item.type == "plain"] or [item.type for item in found]

    return ask


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("se", ["search", "serve-web"]),
        ("bundle --target linux-riscv", ["linux-riscv64-fast", "linux-riscv64-min"]),
        ("verify --target web", ["web-fast", "web-wasm"]),
        ("bundle --recipe int4", ["int4", "int4-int8"]),
        ("quantize -r int4", ["int4", "int4-int8"]),
        ("search -r float", ["float-levels"]),
        ("runtime lib -r float", ["float-levels"]),
        (
            "bundle --as ",
            ["aar", "crate", "deb", "go", "jar", "mender", "npm", "single", "static-library", "wheel"],
        ),
        ("bundle all-Mini", ["all-MiniLM-L6-v2"]),
        ("bundle -m all-Mini", ["all-MiniLM-L6-v2"]),
        ("inspect BAAI/bge-s", ["BAAI/bge-small-en-v1.5"]),
        ("doctor nomic-ai", ["nomic-ai/nomic-embed-text-v1.5"]),
        ("bundle ./", ["file"]),
        ("bundle --norm", ["--normalize"]),
        ("quantize --format on", ["onnx"]),
        ("bundle --gate q", ["quick"]),
        ("build mine", ["mine:web-wasm", "mine"]),
        ("cache clean ", ["runners"]),
        ("plugin new x --axis pa", ["package", "pass"]),
        ("completion f", ["fish"]),
    ],
)
def test_the_tab_key_offers(words: str, expected: list[str], offered: object) -> None:
    assert callable(offered)
    found = offered(*words.split(" "))
    assert set(found) == set(expected), json.dumps(found)
