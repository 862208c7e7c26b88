"""A bundle's own vectors: its program run as a device would run it, with an empty environment."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Sequence
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import (
    BundleError,
    CannotRunHere,
    EdgepackError,
    MissingToolError,
    ProofError,
    ToolError,
)
from edgepack.files.elf import architecture
from edgepack.foundry.proof.emulator import find_emulator
from edgepack.foundry.releases.ort_1_21.feature_levels import LEVELS
from edgepack.records.bundle import Bundle

NOT_FOUND = 127
"""How ``env`` says that there is no such program."""
NO_DEVICE = 9
"""How the program says that this device is not what its execution provider needs."""
DAMAGED = 4
"""How the program says that a file of its bundle is missing or damaged."""


def embed_with_program(
    bundle: Bundle, texts: Sequence[str], *, options: Sequence[str] = (), context: BuildContext
) -> list[list[float]]:
    """Vectors of the texts, float32 values [len(texts), dimension], as the bundle's program makes them.

    Another processor's program runs under an emulator, as on the best processor that it emulates. Raises
    ``BundleError`` when the program says that its bundle is damaged, ``ProofError`` when it fails otherwise or answers
    something else than vectors, ``CannotRunHere`` when this host can neither execute nor emulate it.
    """
    if not texts:
        return []
    output = _answers(bundle, texts, ["--out", "jsonl", *options], context)
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


def embed_on_gpu(bundle: Bundle, texts: Sequence[str], *, context: BuildContext) -> list[list[float]]:
    """As ``embed_with_program``, for a bundle whose provider needs a GPU of its device.

    On a host without that GPU, raises ``CannotRunHere`` with the vectors that the bundle makes on the processor: they
    show a wrong model or tokenizer, and verify nothing.
    """
    try:
        return embed_with_program(bundle, texts, context=context)
    except CannotRunHere as cannot:
        instead = embed_with_program(bundle, texts, options=["--allow-cpu"], context=context)
        raise CannotRunHere(
            f"not on a GPU ({cannot.reason}); these are the processor's", instead=instead
        ) from cannot


def tokens_with_program(bundle: Bundle, texts: Sequence[str], *, context: BuildContext) -> list[list[int]]:
    """The ids that a native program's own tokenizer makes of each text. Raises what ``embed_with_program`` raises."""
    try:
        made = [json.loads(line) for line in _answers(bundle, texts, ["--tokens"], context).splitlines()]
    except ValueError as error:
        raise ProofError(
            f"the program of {bundle.name} answered something that is not tokens: {error}"
        ) from error
    if len(made) != len(texts):
        raise ProofError(f"the program of {bundle.name} gave tokens of {len(made)} texts for {len(texts)}")
    return made


def _answers(bundle: Bundle, texts: Sequence[str], options: Sequence[str], context: BuildContext) -> str:
    """What the program says of the texts, given as JSON lines."""
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    command: list[str | Path] = ["env", "-i", *_emulation(bundle, context), bundle.program, "--jsonl"]
    try:
        return context.run([*command, *options], cwd=bundle.directory, input=lines)
    except ToolError as error:
        if f"exit code {NO_DEVICE}" in error.message:
            raise CannotRunHere(said_by_program(error)) from error
        raise failure_of(bundle, error) from error


def _emulation(bundle: Bundle, context: BuildContext) -> list[str | Path]:
    """What the program's command line begins with where it is not this host's own kind; else nothing."""
    try:
        built_for = architecture(bundle.program)
    except OSError as error:
        raise BundleError(
            f"the program of {bundle.name} cannot be read: {error}", hint="build it again"
        ) from error
    if built_for in (None, platform.machine()):
        return []
    best = next((level.emulated for level in reversed(LEVELS.get(built_for, ())) if level.emulated), None)
    if best is None:
        raise CannotRunHere(f"the program is for {built_for}, this host is {platform.machine()}")
    try:
        emulator = find_emulator(built_for, context=context)
    except MissingToolError as error:
        raise CannotRunHere(
            f"the program is for {built_for}, this host is {platform.machine()}: {error.message}"
        ) from error
    return emulator.command(best)


def failure_of(bundle: Bundle, error: ToolError) -> EdgepackError:
    """What a failed run means: the program's own sentence, without its hint, which is for the device."""
    found = re.search(r"exit code (\d+)", error.message)
    said = said_by_program(error)
    if found and int(found[1]) in (DAMAGED, NOT_FOUND):
        return BundleError(f"the bundle {bundle.name} is damaged: {said}", hint="build it again")
    return ProofError(f"the program of {bundle.name} failed: {said or error.message}")


def said_by_program(error: ToolError) -> str:
    """The program's own sentence, without its hint."""
    return re.sub(r"^(error: |hint: .*)", "", error.message.partition("\n")[2], flags=re.MULTILINE).strip()
