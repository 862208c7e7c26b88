"""The proof: the shipped model, loaded and run on the shipped library, where nothing else is at hand.

Its vectors must be those that the stock library makes of the same file; and that for each kind of processor that
MLAS has kernels for, as far as this machine can be or emulate one.
"""

from __future__ import annotations

import importlib.util
import math
import platform as host
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgepack.context import BuildContext
from edgepack.errors import MissingToolError, ProofError, ToolError
from edgepack.files.elf import architecture
from edgepack.foundry.proof.cpuid import ask_the_program
from edgepack.foundry.proof.emulator import Emulator, find_emulator
from edgepack.foundry.proof.harness import prover
from edgepack.foundry.releases.ort_1_21.feature_levels import (
    LEVELS,
    Level,
    has_level,
    hidden_bits,
    level_of,
    processor_flags,
)
from edgepack.records.model import PreparedModel
from edgepack.records.runtime import LevelProof, Levels, RuntimeArtifact

if TYPE_CHECKING:
    import onnxruntime

HERE = "this processor"
LENGTHS = (3, 17)
"""Tokens of the texts that are run: a short one, and one that is no multiple of any kernel's width."""
TOLERANCE = {"fp32": 0.99999}
QUANTIZED_TOLERANCE = 0.99
"""Cosine to the stock library's vectors: processors sum and round in their own ways, and where activations are
quantized a hair's difference becomes a whole step (a bundle's self-test allows as much)."""
VOCABULARY = 30522

_SCRIPT = """\
import importlib.util, pathlib, sys
binding, library, model, output, dimension, inputs, *texts = sys.argv[1:]
spec = importlib.util.spec_from_file_location("binding", binding)
module = importlib.util.module_from_spec(spec)
sys.modules["binding"] = module
spec.loader.exec_module(module)
session = module.Session(pathlib.Path(library), pathlib.Path(model), 1)
for text in texts:
    ids = [[int(word) for word in text.split(",")]]
    ones, zeros = [[1] * len(ids[0])], [[0] * len(ids[0])]
    vectors = session.run(ids, ones, zeros if "token_type_ids" in inputs.split(",") else None)
    print(*(float(value).hex() for value in vectors[0]))
"""
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
    """The same for a model and a library that are out there; the model's first output is compared.

    ``tolerance`` is a cosine; ``isa`` names the instruction sets that the library was restricted to.
    """
    proof = _Proof(
        model=model.absolute(),
        library=library.absolute(),
        arch=architecture(library) or host.machine(),
        tolerance=tolerance,
        expected=_stock(model, token_ids(vocabulary)),
        context=context,
        flags=processor_flags(),
    )
    if proof.arch not in LEVELS:
        return (_native(proof, HERE),)
    wanted = [level for level in LEVELS[proof.arch] if not isa or level.name in isa]
    if proof.arch != host.machine():
        emulator = _needed_emulator(proof)
        return tuple(_emulated(proof, level, emulator) for level in wanted)
    return _all_levels(proof, wanted, fetch=levels == "all")


@dataclass(frozen=True, kw_only=True)
class _Expected:
    """What the stock library of the same version makes of the texts."""

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
    flags: frozenset[str] = frozenset()
    """What this processor has."""


def _all_levels(proof: _Proof, wanted: Sequence[Level], *, fetch: bool) -> tuple[LevelProof, ...]:
    """The levels of this machine's architecture, each by the best that is at hand."""
    own = level_of(proof.arch, proof.flags)
    emulator, lacking = None, "not emulated: only level all is"
    if fetch:
        try:
            emulator = find_emulator(proof.arch, context=proof.context)
        except MissingToolError as error:
            lacking = error.message
    # First as it is: what is wrong with it altogether is said of this processor.
    native = _native(proof, own.name)
    proofs = []
    for level in wanted:
        if level == own:
            proofs.append(native)
        elif emulator and level.emulated:
            proofs.append(_emulated(proof, level, emulator))
        elif proof.arch == "x86_64" and has_level(level, proof.flags):
            proofs.append(_limited(proof, level))
        else:
            reason = (
                f"this processor has it not; {lacking}"
                if level.emulated
                else "neither this processor nor qemu has it"
            )
            proofs.append(LevelProof(level=level.name, proved=False, reason=reason))
    return tuple(proofs)


def _needed_emulator(proof: _Proof) -> Emulator:
    try:
        return find_emulator(proof.arch, context=proof.context)
    except MissingToolError as error:
        raise MissingToolError(
            f"{proof.library.name} is for {proof.arch} and is proved under an emulator here: {error.message}",
            hint=error.hint,
        ) from error


def _native(proof: _Proof, level: str) -> LevelProof:
    """On this processor, by the runner's own binding to the library: what is proved is what is shipped."""
    script = proof.context.work_dir / "prove.py"
    script.write_text(_SCRIPT)
    command: list[str | Path] = ["env", "-i", sys.executable, "-I", "-S", script, runner_binding()]
    return _run(proof, command, proof.library, level=level, by=HERE)


def _limited(proof: _Proof, level: Level) -> LevelProof:
    """On this processor, which hides from the library what it has above this level."""
    copy = proof.context.work_dir / f"limited-{proof.library.name}"
    ask_the_program(proof.library, copy)
    hidden = " ".join(f"{bits:x}" for bits in hidden_bits(level))
    command: list[str | Path] = [
        "env",
        "-i",
        f"PROVE_HIDDEN={hidden}",
        prover(proof.arch, context=proof.context),
    ]
    return _run(proof, command, copy, level=level.name, by=f"{HERE}, limited")


def _emulated(proof: _Proof, level: Level, emulator: Emulator) -> LevelProof:
    """As on another processor."""
    assert level.emulated is not None
    command: list[str | Path] = [
        "env",
        "-i",
        *emulator.command(level.emulated),
        prover(proof.arch, context=proof.context),
    ]
    by = f"qemu {emulator.version}, {level.emulated}"
    return _run(proof, command, proof.library, level=level.name, by=by)


def _run(proof: _Proof, command: Sequence[str | Path], library: Path, *, level: str, by: str) -> LevelProof:
    expected = proof.expected
    arguments: list[str | Path] = [
        library,
        proof.model,
        expected.output,
        str(len(expected.vectors[0])),
        ",".join(expected.inputs),
    ]
    arguments += [",".join(map(str, text)) for text in expected.texts]
    where = f"{proof.library.name} (level {level}, {by})"
    try:
        output = proof.context.run([*command, *arguments], log_file=proof.context.work_dir / "prove.log")
    except ToolError as error:
        raise ProofError(
            f"{proof.model.name} does not run on {where}: {_reason(error.message)}",
            hint="a kernel that the message names is missing: build the runtime for the operators of this very file",
        ) from error
    vectors = [[float.fromhex(word) for word in line.split()] for line in output.splitlines()]
    try:
        cosine = nearness(vectors, expected.vectors)
    except ValueError as error:
        raise ProofError(f"{proof.model.name} runs on {where}, but {error}") from error
    if not cosine >= proof.tolerance:
        raise ProofError(
            f"vectors of {proof.model.name} on {where} differ from the stock library's: cosine {cosine:.5f}, "
            f"at least {proof.tolerance} is asked for",
            hint="this is a fault of the reduced library: report it, with the model's name and the target",
        )
    return LevelProof(level=level, proved=True, by=by, min_cosine=cosine)


def token_ids(vocabulary: int) -> list[list[int]]:
    """The texts of a proof, as token ids."""
    return [
        [101 % vocabulary, *((1000 + place) % vocabulary for place in range(length - 2)), 102 % vocabulary]
        for length in LENGTHS
    ]


def expected_vectors(model: Path, texts: Sequence[Sequence[int]]) -> Sequence[Sequence[float]]:
    """What the stock library makes of each text alone: float32 [len(texts), dimension]."""
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


def nearness(vectors: Sequence[Sequence[float]], expected: Sequence[Sequence[float]]) -> float:
    """The least cosine of vectors and those expected; ``ValueError``, which says why, for what are no such vectors."""
    if [len(vector) for vector in vectors] != [len(vector) for vector in expected]:
        found, wanted = (sorted({len(vector) for vector in both}) for both in (vectors, expected))
        raise ValueError(
            f"it gave {len(vectors)} vectors of {found} dimensions, not {len(expected)} of {wanted}"
        )
    if not all(math.isfinite(value) for vector in vectors for value in vector):
        raise ValueError("a vector is not finite")
    if not all(any(vector) for vector in vectors):
        raise ValueError("a vector is zero")
    return min(_cosine(one, other) for one, other in zip(vectors, expected, strict=True))


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    product = math.fsum(a * b for a, b in zip(one, other, strict=True))
    return product / math.sqrt(math.fsum(a * a for a in one) * math.fsum(b * b for b in other))


def runner_binding() -> Path:
    """The runner's own binding to the C API."""
    found = importlib.util.find_spec("edgepack.runner.frozen.ort")
    if found is None or found.origin is None:
        raise ProofError("the runner's binding to ONNX Runtime is missing from this installation")
    return Path(found.origin)


def _reason(output: str) -> str:
    """The line that says it, of a traceback."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if _KERNEL.search(line)] or lines[-1:]
    return telling[-1] if telling else "no message"
