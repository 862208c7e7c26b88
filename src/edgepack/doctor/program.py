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

SECONDS, LARGEST_ANSWER, MOST_LINES = 120.0, 32 << 20, 1 << 21
"""For one run: 200 vectors of 4,096 numbers are 18 MB, and as many lines if each number has its own."""
HINT = "it must read one object with `text` per line on standard input, and write one with `embedding`"


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
        asked = "".join(f"{line}\n" for line in given).encode(errors="replace")
        try:
            done = tools.exchange(self.command, input=asked, seconds=seconds, most=LARGEST_ANSWER)
        except (MissingToolError, ToolError) as error:
            raise SubjectError(str(error), hint=HINT) from error
        # Stopped by the deadline, where it is over now.
        self.deadline.left()
        if why := _failure(done, seconds):
            raise SubjectError(f"{self.command[0]} {why}", hint=HINT)
        said = done.output.decode(errors="replace")
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


def _failure(done: tools.Exchanged, seconds: float) -> str | None:
    """Why the program has not answered, in words."""
    if done.stopped == "time":
        return f"did not finish within {seconds:g} s"
    if done.stopped == "output" or done.output.count(b"\n") > MOST_LINES:
        return f"wrote more than {LARGEST_ANSWER >> 20} MiB, or {MOST_LINES} lines"
    if done.code == 0:
        return None
    last = done.messages[-1000:].decode(errors="replace").strip().splitlines()[-1:]
    return " ".join(
        (
            f"failed with exit code {done.code}:" if done.code > 0 else f"was ended by signal {-done.code}:",
            *last,
        )
    ).rstrip(":")


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
