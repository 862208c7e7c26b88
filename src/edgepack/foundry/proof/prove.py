"""The proof: the shipped model, loaded and run on the shipped library, where nothing else is at hand.

Its vectors must be those that the stock library makes of the same file; and that for each kind of processor that
MLAS has kernels for, as far as this machine can be or emulate one.
"""

from __future__ import annotations

import math
import platform as host
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgepack.context import BuildContext
from edgepack.errors import ProofError, ToolError
from edgepack.files.elf import architecture
from edgepack.foundry.proof.by_level import Way, prove_levels
from edgepack.foundry.proof.cpuid import replace_cpuid
from edgepack.foundry.proof.harness import hiding, prover
from edgepack.records.figures import MAX_LENGTH_ERROR
from edgepack.records.model import PreparedModel
from edgepack.records.runtime import LevelProof, Levels, RuntimeArtifact

if TYPE_CHECKING:
    import onnxruntime

LENGTHS = (3, 17)
"""Tokens of the texts that are run: a short one, and one that is no multiple of any kernel's width."""
TOLERANCE = {"fp32": 0.99999}
QUANTIZED_TOLERANCE = 0.99
"""Cosine to the stock library's vectors: processors sum and round in their own ways, and where activations are
quantized a hair's difference becomes a whole step (a bundle's self-test allows as much)."""
VOCABULARY = 30522

_KERNEL = re.compile(r"(?:kernel|implementation) for (?:the node .*?:)?\s*(\S.*)", re.I)


def prove(
    model: PreparedModel, runtime: RuntimeArtifact, *, levels: Levels = "here", context: BuildContext
) -> tuple[LevelProof, ...]:
    """Run the model on the library and compare its vectors with the stock library's: what was proved, by level.

    Raises ``ProofError`` when a kernel is missing (the message names it) or the vectors differ, ``MissingToolError``
    when the library is for another architecture and there is no emulator. A level that nothing here can show is
    returned as not proved, with the reason.
    """
    return prove_file(
        model.file,
        runtime.file,
        tolerance=TOLERANCE.get(model.precision, QUANTIZED_TOLERANCE),
        vocabulary=int(model.source.config.get("vocab_size", VOCABULARY)),
        isa=runtime.isa,
        levels=levels,
        context=context,
    )


def prove_file(
    model: Path,
    library: Path,
    *,
    tolerance: float = QUANTIZED_TOLERANCE,
    vocabulary: int = VOCABULARY,
    isa: Sequence[str] = (),
    levels: Levels = "here",
    context: BuildContext,
) -> tuple[LevelProof, ...]:
    """Proves a model and a library that are out there; the model's first output is compared.

    ``tolerance`` is a cosine; ``isa`` names the instruction sets that the library was restricted to.
    """
    proof = _Proof(
        model=model.absolute(),
        library=library.absolute(),
        arch=architecture(library) or host.machine(),
        tolerance=tolerance,
        expected=_stock(model, token_ids(vocabulary)),
        context=context,
    )
    return prove_levels(
        partial(_attempt, proof), name=library.name, arch=proof.arch, isa=isa, levels=levels, context=context
    )


@dataclass(frozen=True, kw_only=True)
class _Expected:
    """Answers of the stock library of the same version to the texts."""

    inputs: tuple[str, ...]
    output: str
    texts: Sequence[Sequence[int]]
    vectors: Sequence[Sequence[float]]
    """float32 [len(texts), dimension]."""


@dataclass(frozen=True, kw_only=True)
class _Proof:
    """One model on one library."""

    model: Path
    library: Path
    arch: str
    tolerance: float
    expected: _Expected
    context: BuildContext


def _attempt(proof: _Proof, way: Way) -> float:
    """The lowest cosine to the stock library's vectors. Raises ``ProofError``."""
    library = proof.library
    if way.hidden:
        library = proof.context.work_dir / f"limited-{proof.library.name}"
        replace_cpuid(proof.library, library)
    where = f"{proof.library.name} (level {way.level}, {way.by})"
    return require_near(
        _vectors(proof, library, way, where),
        proof.expected.vectors,
        tolerance=proof.tolerance,
        what=proof.model.name,
        where=where,
    )


def _vectors(proof: _Proof, library: Path, way: Way, where: str) -> list[list[float]]:
    expected = proof.expected
    command: list[str | Path] = [
        "env",
        "-i",
        *(f"{name}={value}" for name, value in hiding(way.hidden).items()),
        *way.emulation,
        prover(proof.arch, context=proof.context),
        library,
        proof.model,
        expected.output,
        str(len(expected.vectors[0])),
        ",".join(expected.inputs),
        *(",".join(map(str, text)) for text in expected.texts),
    ]
    try:
        output = proof.context.run(command, log_file=proof.context.work_dir / "prove.log")
    except ToolError as error:
        raise ProofError(
            f"{proof.model.name} does not run on {where}: {_reason(error.message)}",
            hint="if the message names a missing kernel: build the runtime for this file's operators",
        ) from error
    return [[float.fromhex(word) for word in line.split()] for line in output.splitlines()]


def require_near(
    vectors: Sequence[Sequence[float]],
    expected: Sequence[Sequence[float]],
    *,
    tolerance: float,
    what: str,
    where: str,
    texts: Sequence[str] = (),
) -> float:
    """The lowest cosine of the vectors to those expected; ``ProofError`` where it is below ``tolerance``.

    ``what`` ran, on ``where``, in words, with ``texts``.
    """
    try:
        cosine = nearness(vectors, expected, texts)
    except ValueError as error:
        raise ProofError(f"{what} runs on {where}, but {error}") from error
    if not cosine >= tolerance:
        raise ProofError(
            f"vectors of {what} on {where} differ from the stock library's: cosine {cosine:.5f}, "
            f"at least {tolerance} is required",
            hint="this is a bug in the reduced runtime; please report it with the model's name and the target",
        )
    return cosine


def token_ids(vocabulary: int) -> list[list[int]]:
    """The texts of a proof, as token ids."""
    return [
        [101 % vocabulary, *((1000 + place) % vocabulary for place in range(length - 2)), 102 % vocabulary]
        for length in LENGTHS
    ]


def expected_vectors(model: Path, texts: Sequence[Sequence[int]]) -> Sequence[Sequence[float]]:
    """Vectors of the stock library for each text alone: float32 [len(texts), dimension]."""
    return _stock(model, texts).vectors


def _stock(model: Path, texts: Sequence[Sequence[int]]) -> _Expected:
    from edgepack.models.ort.session import open_session

    session = open_session(model)
    inputs = tuple(each.name for each in session.get_inputs())
    output = session.get_outputs()[0].name
    vectors = [_stock_vector(session, inputs, output, text) for text in texts]
    return _Expected(inputs=inputs, output=output, texts=texts, vectors=vectors)


def _stock_vector(
    session: onnxruntime.InferenceSession, inputs: Sequence[str], output: str, text: Sequence[int]
) -> list[float]:
    import numpy as np

    feeds = {name: np.full((1, len(text)), name == "attention_mask", dtype=np.int64) for name in inputs}
    feeds["input_ids"] = np.array([text], dtype=np.int64)
    return [float(value) for value in session.run([output], feeds)[0][0]]


def nearness(
    vectors: Sequence[Sequence[float]], expected: Sequence[Sequence[float]], texts: Sequence[str] = ()
) -> float:
    """The least cosine of vectors and those expected; ``ValueError``, which says why, for what are no such vectors."""
    if [len(vector) for vector in vectors] != [len(vector) for vector in expected]:
        found, wanted = (sorted({len(vector) for vector in both}) for both in (vectors, expected))
        raise ValueError(
            f"it gave {len(vectors)} vectors of {found} dimensions, not {len(expected)} of {wanted}"
        )
    for at, vector in enumerate(vectors):
        of = f"the vector of {texts[at]!r}" if texts else f"vector {at}"
        if not all(map(math.isfinite, vector)):
            raise ValueError(f"{of} is not finite")
        if not any(vector):
            raise ValueError(f"{of} is zero")
        length = math.hypot(*vector) / (math.hypot(*expected[at]) or math.inf)
        if not abs(length - 1) <= MAX_LENGTH_ERROR:
            raise ValueError(f"{of} is {length:.2f} times as long as it should be")
    return min(_cosine(one, other) for one, other in zip(vectors, expected, strict=True))


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    product = math.fsum(a * b for a, b in zip(one, other, strict=True))
    return product / math.sqrt(math.fsum(a * a for a in one) * math.fsum(b * b for b in other))


def _reason(output: str) -> str:
    """The line that says it, of what was said."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if _KERNEL.search(line)] or lines[-1:]
    return telling[-1] if telling else "no message"
