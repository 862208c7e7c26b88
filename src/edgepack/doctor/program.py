"""A program that takes texts as JSON lines, or one a line, and writes vectors."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from edgepack import tools
from edgepack.doctor.halves import Vectors
from edgepack.doctor.subject import Deadline, as_vectors, embedding_of
from edgepack.errors import MissingToolError, SubjectError, ToolError, UsageError

SECONDS = 120.0
"""For one run."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """The subject behind ``--command``: started anew each time."""

    command: tuple[str, ...]
    lines: bool = False
    """Whether texts are given as they are, one a line, in place of JSON."""

    at_once: int = 200
    deadline: Deadline = field(default_factory=Deadline)

    def embed(self, texts: Sequence[str]) -> Vectors:
        given = [" ".join(text.splitlines()) if self.lines else json.dumps({"text": text}) for text in texts]
        seconds = min(SECONDS, self.deadline.left())
        try:
            said = tools.run_tool(self.command, input="".join(f"{line}\n" for line in given), timeout=seconds)
        except (MissingToolError, ToolError, OSError) as error:
            # Stopped by the deadline, where it is over now.
            self.deadline.left()
            first, _, rest = str(error).partition("\n")
            raise SubjectError(
                f"{first} {rest.splitlines()[-1]}" if rest else first,
                hint="it must read one object with `text` per line on standard input, and write one with `embedding`",
            ) from error
        return as_vectors(_answers(said), len(texts), self.command[0])


def parse_command(words: str, *, lines: bool, deadline: Deadline | None = None) -> Program:
    """The program of a command line; raises ``UsageError``."""
    try:
        command = tuple(shlex.split(words))
    except ValueError as error:
        raise UsageError(f"--command {words}: {error}", hint="quote it as in a shell") from error
    if not command:
        raise UsageError("--command names no program")
    return Program(command=command, lines=lines, deadline=deadline or Deadline())


def _answers(said: str) -> list[Any]:
    """Vectors out of JSON lines, or out of one document: a list, or OpenAI's answer."""
    try:
        try:
            entries = [json.loads(line) for line in said.splitlines() if line.strip()]
        except ValueError:
            entries = [json.loads(said)]
    except (ValueError, RecursionError) as error:
        raise SubjectError(
            f"the program wrote something that is not JSON: {said.strip()[:60]!r}",
            hint='expected one object per line: {"embedding": [0.1, …]}',
        ) from error
    if len(entries) == 1 and isinstance(entries[0], dict) and "data" in entries[0]:
        entries = entries[0]["data"]
    elif len(entries) == 1 and isinstance(entries[0], list) and not _is_vector(entries[0]):
        entries = entries[0]
    return [embedding_of(entry) for entry in entries]


def _is_vector(entry: list[Any]) -> bool:
    return bool(entry) and isinstance(entry[0], int | float)
