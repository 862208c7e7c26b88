"""Golden texts: what a bundle's ``--self-test`` embeds, and what must come out."""

import hashlib
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgepack.bundles.manifest import GOLDEN, write_manifest
from edgepack.context import BuildContext
from edgepack.errors import BundleError, CannotRunHere, reason_of
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.target import FORMATS
from edgepack.toml_schema import parse_foreign, read_foreign

Embed = Callable[[Bundle, Sequence[str]], Sequence[Sequence[float]]]
TOLERANCE = 0.99
"""Cosine that a device's vector must have with the golden one: processors round int8 products differently."""
LEAST = 0.9
"""Of anybody's tolerance."""
DECIMALS = 4
"""Changes a unit vector's cosine by less than 1e-6, up to some 2,000 dimensions: a thousandth of what processors round differently."""

MOST = 64 << 20
"""Bytes of the golden texts and vectors of a bundle; those of 4,096 dimensions have half a megabyte."""

TEXTS: tuple[str, ...] = (
    "The quick brown fox jumps over the lazy dog.",
    "How do I reset the device to its factory settings?",
    "Wie setze ich das Gerät auf die Werkseinstellungen zurück?",
    "¿Dónde está la biblioteca más cercana?",
    "この文章は埋め込みベクトルに変換されます。",
    "Сколько стоит доставка в Новосибирск?",
    "🚀🔥 shipped on Friday 🎉",
    ".",
    "  two\tkinds of white space,\nand a line break  ",
    "def area(radius: float) -> float: return 3.14159 * radius ** 2",
    "https://example.com/search?q=vector+database&page=2#results",
    " ".join(
        f"Step {step}: loosen screw number {step}, lift the cover, clean the filter and note the reading."
        for step in range(1, 31)
    ),
)
"""The last is longer than the 256 or 512 tokens that models take: truncation is tested, too."""


def golden_json(vectors: Sequence[Sequence[float]]) -> bytes:
    """The content of ``golden.json`` for the vectors of ``TEXTS``, float [len(TEXTS), dimension].

    A vector of zeros, as a sparse encoder may give, has no angle to another: its text is left out.
    """
    pairs = [(text, vector) for text, vector in zip(TEXTS, vectors, strict=True) if any(vector)]
    rows = [[round(float(value), DECIMALS) for value in vector] for _, vector in pairs]
    # Of many zeros, a digit each.
    rows = [[value or 0 for value in row] if row.count(0) > len(row) // 2 else row for row in rows]
    texts = [text for text, _ in pairs]
    document: dict[str, Any] = {"texts": texts, "vectors": rows, "tolerance": TOLERANCE}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def read_golden(bundle: Bundle) -> tuple[list[str], list[list[float]]]:
    """Texts and a vector for each, as the bundle's maker wrote them down. Raises ``BundleError``."""
    try:
        said = parse_foreign(read_foreign(bundle.directory / str(bundle.manifest["golden"]), most=MOST))
        texts, vectors = said["texts"], said["vectors"]
        lists = isinstance(texts, list) and isinstance(vectors, list) and len(texts) == len(vectors)
        if not lists or not texts or not all(isinstance(each, str) for each in texts):
            raise ValueError("not a vector for each of some texts")
        if {type(number) for row in vectors for number in row} - {int, float}:
            raise ValueError("a vector's numbers are none")
        # Devices test themselves by it.
        tolerance = said.get("tolerance", TOLERANCE)
        if type(tolerance) is not float or not LEAST <= tolerance <= 1:
            raise ValueError(f"their tolerance is below {LEAST}")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BundleError(
            f"the golden vectors of {bundle.name} cannot be read: {reason_of(error)}", hint="build it again"
        ) from error
    return texts, vectors


def golden_vectors(model: PreparedModel, source: ModelSource, *, context: BuildContext) -> list[list[float]]:
    """Expected vectors of the finished bundle for ``TEXTS``, by the stock onnxruntime package, float [len(TEXTS), dimension].

    Made from the prepared model's oracle where it names one, else from the file that ships. A file that ONNX Runtime does not
    read has those of the full-precision model, ``source``: no plugin writes down what it is compared with.
    """
    from edgepack.models.reference import embed_with_onnxruntime, reference_vectors

    file = model.oracle or model.cpu_file or (model.file if model.format in FORMATS else None)
    if file is None:
        vectors = reference_vectors(source, TEXTS, context=context)
    else:
        around = replace(model.source, module=source.module)
        vectors = embed_with_onnxruntime(file, around, TEXTS, context=context)
    rows: list[list[float]] = vectors.tolist()
    return rows


def digest_of(vectors: Sequence[Sequence[float]]) -> str:
    """SHA-256 of vectors' bits, as float32, one after the other; empty where a number is none that float32 has."""
    try:
        return hashlib.sha256(b"".join(struct.pack(f"<{len(each)}f", *each) for each in vectors)).hexdigest()
    except (struct.error, OverflowError):
        return ""


def with_exact_vectors(bundle: Bundle, makes: Bundle, embed: Embed) -> Bundle:
    """The bundle with the digest of its golden texts' vectors in its manifest, as ``makes`` makes them: itself, or a copy with a program for
    this host.

    As it was where no host can run the program.
    """
    texts = json.loads((bundle.directory / GOLDEN).read_text(encoding="utf-8"))["texts"]
    try:
        digest = digest_of(embed(makes, texts))
    except CannotRunHere:
        return bundle
    manifest = {**bundle.manifest, "model": {**bundle.manifest["model"], "vectors_sha256": digest}}
    write_manifest(bundle.directory, manifest)
    return replace(bundle, manifest=manifest)


def golden_document(model: Path, source: ModelSource) -> bytes:
    """The content of ``golden.json`` for a model's file, whose vectors the stock onnxruntime package makes.

    For a bundle with a second model; that of the first is written with the bundle.
    """
    from edgepack.models.reference import embed_with_onnxruntime

    return golden_json(embed_with_onnxruntime(model, source, TEXTS).tolist())
