"""A bundle's own vectors: its program run as a device would run it, with an empty environment."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Sequence
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.elf import architecture
from edgepack.errors import BundleError, CannotRunHere, EdgepackError, ProofError, ToolError
from edgepack.records import Bundle

NOT_FOUND = 127
"""How ``env`` says that there is no such program."""
DAMAGED = 4
"""How the program says that a file of its bundle is missing or damaged."""


def embed_with_program(bundle: Bundle, texts: Sequence[str], *, context: BuildContext) -> list[list[float]]:
    """Vectors of the texts, float32 values [len(texts), dimension], as the bundle's program makes them.

    Raises ``BundleError`` when the program says that its bundle is damaged, ``ProofError`` when it fails otherwise or
    answers something else than vectors, ``CannotRunHere`` when this host cannot execute it.
    """
    if not texts:
        return []
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    require_same_architecture(bundle)
    command: list[str | Path] = ["env", "-i", bundle.program, "--jsonl", "--out", "jsonl"]
    try:
        output = context.run(command, cwd=bundle.directory, input=lines)
    except ToolError as error:
        raise failure_of(bundle, error) from error
    try:
        vectors = [
            [float(number) for number in json.loads(line)["embedding"]] for line in output.splitlines()
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise ProofError(
            f"the program of {bundle.name} answered something that is not vectors: {error}"
        ) from error
    dimension = bundle.manifest["model"]["dimension"]
    if len(vectors) != len(texts) or any(len(vector) != dimension for vector in vectors):
        raise ProofError(
            f"the program of {bundle.name} gave {len(vectors)} vectors for {len(texts)} texts, or not of {dimension} dimensions"
        )
    return vectors


def require_same_architecture(bundle: Bundle) -> None:
    """Raises ``CannotRunHere``: a shell would take another processor's program for a script."""
    try:
        built_for = architecture(bundle.program)
    except OSError as error:
        raise BundleError(
            f"the program of {bundle.name} cannot be read: {error}", hint="build it again"
        ) from error
    if built_for not in (None, platform.machine()):
        raise CannotRunHere(f"the program is for {built_for}, this host is {platform.machine()}")


def failure_of(bundle: Bundle, error: ToolError) -> EdgepackError:
    """What a failed run means: the program's own sentence, without its hint, which is for the device."""
    found = re.search(r"exit code (\d+)", error.message)
    said = re.sub(r"^(error: |hint: .*)", "", error.message.partition("\n")[2], flags=re.MULTILINE).strip()
    if found and int(found[1]) in (DAMAGED, NOT_FOUND):
        return BundleError(f"the bundle {bundle.name} is damaged: {said}", hint="build it again")
    return ProofError(f"the program of {bundle.name} failed: {said or error.message}")
