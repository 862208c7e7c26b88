"""The programs of sample bundles, run as processes of their own, and what they said."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from edgepack.runner.freeze.sample_bundle import write_sample
from edgepack.runner.tokenizer.compile import compile_tokenizer
from tests.support.wine import under_wine

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


def write_compiled_sample(folder: Path) -> None:
    """A sample bundle with a table in its tokenizer's place."""
    write_sample(folder)
    document = folder / "model/tokenizer.json"
    document.with_suffix(".bin").write_bytes(compile_tokenizer(document.read_text(encoding="utf-8")))
    document.unlink()


def run_program(
    bundle: Path,
    *arguments: str | bytes,
    input: bytes = b"",
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run the program for a bundle folder as a process of its own, with more variables in its environment."""
    command = [*command_of(bundle), *arguments]
    variables = {**os.environ, **(environment or {})}
    return subprocess.run(command, input=input, capture_output=True, env=variables, check=False)


def command_of(bundle: Path) -> list[str]:
    """How a sample bundle's program is started."""
    return under_wine(bundle / "embed.exe") if is_for_windows(bundle) else [str(bundle / "embed")]


def is_for_windows(bundle: Path) -> bool:
    """Whether its program is one for Windows, which runs under wine."""
    return (bundle / "embed.exe").exists()


def ended_by(bundle: Path, number: int) -> int:
    """The code of a program that a signal, or Ctrl-C, ended."""
    return 128 + number if is_for_windows(bundle) else -number


def library_of(folder: Path) -> str:
    """Path of the library within a bundle folder."""
    return next((folder / "lib").iterdir()).relative_to(folder).as_posix()


def tokenizer_of(folder: Path) -> str:
    """Path of the tokenizer within a bundle folder."""
    return next((folder / "model").glob("tokenizer.*")).relative_to(folder).as_posix()


def vectors_of(output: bytes) -> list[list[float]]:
    """The embeddings of a JSON array or of JSON lines."""
    records = (
        json.loads(output) if output.startswith(b"[") else [json.loads(line) for line in output.splitlines()]
    )
    return [record["embedding"] for record in records]


def complaint(done: subprocess.CompletedProcess[bytes]) -> list[str]:
    """The lines on standard error of a run that failed; there are at most two, the first says what is wrong."""
    lines = done.stderr.decode().splitlines()
    assert lines[0].startswith("error: "), lines
    assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("hint: ")), lines
    return lines
