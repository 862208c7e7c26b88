"""The texts that are nearest to a query, by the cosine of their vectors."""

from __future__ import annotations

import json
import math
import os
from array import array

from ..base.bundle import Bundle
from ..base.errors import InputError, UsageError
from ..base.open import open_bundle
from ..base.streams import harmless, is_terminal
from ..program import embed, read
from ..program.load import load
from ..program.task import refusal
from ..program.write import Output
from .index import Index, sha256
from .options import SUFFIX, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Sequence

    from ..model.embedder import Embedder
    from ..program.read import Record

    Found = tuple[float, int, str]
    """Cosine, line and text."""

LOOKED_AT = 3
"""Kept vectors that are made again."""
MOST_APART = 0.1
"""How much another CPU may change a cosine, at most."""
OTHERS_HINT = "remove it, or name another file with --index"
NO_TEXT_HINT = "name a file, or give lines on standard input"


def search(arguments: Sequence[str], directory: str, *, program: str) -> int:
    """Print the nearest texts of each query; the exit code."""
    options = parse(arguments, program)
    bundle = open_bundle(directory, require_signature=options.require_signature)
    if options.input is None and is_terminal(0):
        raise UsageError("no text", NO_TEXT_HINT)
    if bundle.task or bundle.outputs:
        raise refusal(bundle)
    queries = read_queries(options)
    passage = bundle.prefixes.get("passage", "")
    kept = options.index or beside(options.input)
    # Before the model, which has threads.
    index = Index(
        kept,
        asked=options.index is not None,
        model=model_digest(bundle, options, passage),
        dimension=options.dim or bundle.dimension,
    )
    embedder = load(bundle, options)
    wanted = [tuple(vector) for vector in unit_vectors(embedder, bundle.prefixes.get("query", ""), queries)]

    def embed_passages(texts: Sequence[str]) -> list[array[float]]:
        return unit_vectors(embedder, passage, texts)

    with Output(None) as output:
        with index:
            size = embedder.batch_size * embed.WINDOW_BATCHES
            nearest = find(
                wanted,
                embed.windows(options, size),
                lambda texts: index.vectors(texts, embed_passages),
                most=options.nearest,
                least=options.min,
            )
            if index.has_kept and not are_of_model(wanted, nearest, embed_passages):
                raise InputError(f"{kept} holds other vectors than this model's", OTHERS_HINT)
        write = write_json if options.json else write_lines
        output.stream.write(write(queries, nearest, headed=options.queries is not None).encode())
    embedder.finish()
    return 0


def read_queries(options: Namespace) -> list[str]:
    """Raises ``InputError`` and ``UsageError``."""
    if options.queries is None:
        return [read.argument_record(options.query, 1, strict=options.strict).text]
    descriptor = embed.open_input(options.queries)
    lines = [line for part in read.read_lines(descriptor, read.CHUNK) for line in part]
    texts = [record.text for record in read.text_records(lines, strict=options.strict, skip=None)]
    if queries := [text for text in texts if text.strip()]:
        return queries
    raise UsageError(f"{options.queries} has no query")


def beside(file: str | None) -> str | None:
    """Where the vectors of a file are kept; None for what is no plain file."""
    return file + SUFFIX if file is not None and os.path.isfile(file) else None


def model_digest(bundle: Bundle, options: Namespace, prefix: str) -> str:
    """Of all that decides what the vector of a text is."""
    digests = {entry["path"]: entry["sha256"] for entry in bundle.value("files")}
    facts = (
        *(digests[bundle.value("model", name)] for name in ("file", "tokenizer")),
        str(options.dim or bundle.dimension),
        str(options.max_length or bundle.max_length),
        prefix,
    )
    return str(sha256("\n".join(facts).encode()).hexdigest())


def unit_vectors(embedder: Embedder, prefix: str, texts: Sequence[str]) -> list[array[float]]:
    """float32, of length 1; zeros stay zeros."""
    vectors = embedder.embed([prefix + text for text in texts]) if texts else []
    lengths = [math.hypot(*vector) or 1.0 for vector in vectors]
    return [array("f", [x / length for x in vector]) for vector, length in zip(vectors, lengths, strict=True)]


def cosine_of_units(first: Sequence[float], second: Sequence[float]) -> float:
    """By their distance: the quickest sum of products that Python has in C."""
    return 1 - math.dist(first, second) ** 2 / 2 if any(first) and any(second) else 0.0


def find(
    wanted: Sequence[Sequence[float]],
    windows: Iterable[list[Record]],
    vectors: Callable[[list[str]], Iterable[Sequence[float]]],
    *,
    most: int,
    least: float,
) -> list[list[Found]]:
    """The nearest texts of each query, the nearest first; of equally near ones, that of the first line."""
    nearest: list[list[Found]] = [[] for _ in wanted]
    seen = False
    for window in windows:
        records = [record for record in window if record.text.strip()]
        seen = seen or bool(records)
        found: list[list[Found]] = [[] for _ in wanted]
        # One row after the other: as numbers of Python's they take eight times the memory.
        for record, row in zip(records, vectors([record.text for record in records]), strict=True):
            for query, taken in zip(wanted, found, strict=True):
                cosine = cosine_of_units(query, row)
                if cosine >= least:
                    taken.append((cosine, record.number, record.text))
        for at, taken in enumerate(found):
            nearest[at] = sorted([*nearest[at], *taken], key=lambda each: (-each[0], each[1]))[:most]
    if not seen:
        raise UsageError("no text: the input is empty, or every line was skipped", NO_TEXT_HINT)
    return nearest


def are_of_model(
    wanted: Sequence[Sequence[float]],
    nearest: Sequence[Sequence[Found]],
    embed: Callable[[list[str]], list[array[float]]],
) -> bool:
    """Whether the nearest texts of each query, three in all, are found as near when they are embedded again.

    A vector that somebody put there for a text is to be found.
    """
    each = -(-LOOKED_AT // len(wanted))
    found = [(query, one) for query, some in zip(wanted, nearest, strict=True) for one in some[:each]]
    chosen = found[:LOOKED_AT]
    made = embed([text for _, (_, _, text) in chosen])
    return all(
        abs(cosine_of_units(query, row) - cosine) <= MOST_APART
        for (query, (cosine, _, _)), row in zip(chosen, made, strict=True)
    )


def write_lines(queries: Sequence[str], nearest: Sequence[Sequence[Found]], *, headed: bool) -> str:
    """``cosine TAB line TAB text`` each; with a line for the query where there may be several."""
    blocks = []
    for query, found in zip(queries, nearest, strict=True):
        lines = [f"{cosine:.4f}\t{line}\t{on_one_line(text)}\n" for cosine, line, text in found]
        blocks.append("".join([f"# {on_one_line(query)}\n", *lines] if headed else lines))
    return "\n".join(blocks)


def on_one_line(text: str) -> str:
    return harmless(text).replace("\n", " ").replace("\t", " ")


def write_json(queries: Sequence[str], nearest: Sequence[Sequence[Found]], *, headed: bool) -> str:
    """One object per query."""
    del headed
    lines = []
    for query, found in zip(queries, nearest, strict=True):
        listed = ",".join(
            f'{{"line":{line},"cosine":{cosine:.4f},"text":{json.dumps(text, ensure_ascii=False)}}}'
            for cosine, line, text in found
        )
        lines.append(f'{{"query":{json.dumps(query, ensure_ascii=False)},"nearest":[{listed}]}}\n')
    return harmless("".join(lines), r"\u%04x")
