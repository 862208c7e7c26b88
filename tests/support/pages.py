"""Code in the pages: fenced blocks, and the commands in them and in indented blocks, in code between backticks and in YAML."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from edgepack.cli import cli
from edgepack.cli.builder_flags import builder_flags
from edgepack.plugins.host import PluginHost
from tests.support.golden import ROOT

HISTORY = {"CHANGELOG.md", "docs/mutants.md"}
"""What was true on its day."""
PAGES = sorted(
    file
    for file in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if str(file.relative_to(ROOT)) not in HISTORY and file.parent.name != "decisions"
)
RUN = "<!-- run -->"
"""Stands above a block of shell that the tests run."""
OUTPUT = {"text", "console", ""}
"""Languages of blocks in which a command stands behind a ``$``."""
FENCE = re.compile(r"^( *)```([\w+-]*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block."""

    language: str
    text: str
    line: int
    """In the page, from 1."""
    run: bool
    """Whether the tests run it."""


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, without the indentation that they have in a list."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            language=each[2],
            text=re.sub(f"^{each[1]}", "", each[3], flags=re.MULTILINE),
            line=text.count("\n", 0, each.start()) + 1,
            run=text[: each.start()].rstrip().endswith(RUN),
        )
        for each in FENCE.finditer(text)
    ]


def command_lines(page: Path) -> Iterator[str]:
    """Every line that begins with ``edgepack`` where a reader would type it."""
    text = page.read_text(encoding="utf-8")
    for block in blocks(page):
        lines = block.text.replace("\\\n", " ").splitlines()
        begin = r"\s*\$ " if block.language in OUTPUT else r"\s*(?:- run: |- )?"
        yield from (line.strip() for line in lines if re.match(rf"{begin}(?:\w+=\S+ )*edgepack ", line))
    yield from (line.strip() for line in re.findall(r"^    edgepack .*", FENCE.sub("", text), re.MULTILINE))


def mentions(page: Path) -> list[str]:
    """Commands between backticks: their places may be in capitals, and what does not matter left out."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return [line for line in re.findall(r"`(edgepack [^`\n]+)`", text) if "…" not in line]


def words_of(line: str, program: str = "edgepack") -> list[str]:
    """What follows a program in a line of shell, up to a pipe, a redirection or a comment."""
    lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    begin = next(at for at, word in enumerate(words) if word.rpartition("/")[2] == program)
    ends = [at for at, word in enumerate(words) if at > begin and set(word) <= set("|&;<>()")]
    return words[begin + 1 : min(ends, default=None)]


def program_lines(page: Path) -> list[str]:
    """Every line of shell that runs the program of a bundle."""
    lines = [
        line
        for block in blocks(page)
        if block.language in {"sh", *OUTPUT}
        for line in block.text.replace("\\\n", " ").splitlines()
    ]
    return [line for line in lines if re.match(r"\s*(?:\$ )?(?:\S*/)?embed ", line)]


def parse(words: list[str], *, host: PluginHost) -> None:
    """Have the command line's own parser read a command, without running it; raises ``click.UsageError`` or ``EdgepackError``."""
    context, given = _parsed(words)
    for parameter in context.command.params:
        _check(parameter, given.get(parameter.name or ""), context)
    if not context.allow_extra_args:
        if context.args:
            raise click.UsageError(f"unexpected {context.args}", ctx=context)
        return
    named = given.get("target_name") or "linux-x86-min"
    name = named if isinstance(named, str) else str(*named)
    if name in host.target_files:
        overrides = [str(each) for each in given.get("overrides") or ()]
        options = host.builder_of(host.target(name)).options()
        flags, _ = builder_flags(context, options)
        target = host.target(name, (*overrides, *flags))
        if unknown := target.options.keys() - options.keys():
            raise click.UsageError(f"{target.builder} has no option {', '.join(unknown)}", ctx=context)


def options_of(words: list[str]) -> tuple[set[str], set[str]]:
    """The options among the words of a mention, and those that its command knows."""
    command: click.Command = cli
    left = list(words)
    while isinstance(command, click.Group) and left and not left[0].startswith("-"):
        found = command.get_command(click.Context(command), left[0])
        if found is None:
            raise click.UsageError(f"no command {left[0]}")
        command = found
        left.pop(0)
    asked = {word.partition("=")[0] for word in left if re.match(r"-{1,2}[a-z]", word)}
    known = {name for each in command.params for name in [*each.opts, *each.secondary_opts]}
    return asked, known | {"-h", "--help"}


def _parsed(words: list[str]) -> tuple[click.Context, dict[str, Any]]:
    command: click.Command = cli
    context = click.Context(cli, info_name="edgepack", **cli.context_settings)
    while True:
        given, left, _ = command.make_parser(context).parse_args(words)
        if not isinstance(command, click.Group) or not left:
            context.args = left
            return context, dict(given)
        found = command.get_command(context, left[0])
        if found is None:
            raise click.UsageError(f"no command {left[0]}", ctx=context)
        command, words = found, left[1:]
        context = click.Context(command, info_name=found.name, parent=context, **command.context_settings)


def _check(parameter: click.Parameter, value: Any, context: click.Context) -> None:
    values = value if isinstance(value, list | tuple) else [value]
    said = [each for each in values if isinstance(each, str)]
    if parameter.required and not said:
        raise click.MissingParameter(ctx=context, param=parameter)
    if isinstance(parameter.type, click.Choice):
        for each in said:
            parameter.type.convert(each, parameter, context)
