"""Texts ranked by a query, or classified: with a model that has a head behind its encoder."""

from __future__ import annotations

import json

from ..base.errors import InputError, UsageError
from ..base.streams import is_terminal
from ..model.head import Head
from . import read
from .embed import WINDOW_BATCHES, usual_format, windows
from .load import load
from .write import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from ..base.bundle import Bundle
    from .read import Record

    Rows = list[tuple[list[int], list[int]]]

NO_TEXT = "pass texts, or lines on standard input"
STEERING = dict.fromkeys((*range(32), *range(127, 160)), " ")
"""What could steer a terminal."""


def score(options: Namespace, bundle: Bundle) -> int:
    """Rank, or classify, what the command line gives or names. Raises ``UsageError`` where that is nothing."""
    if not options.texts and not options.input and is_terminal(0):
        raise UsageError("no text", NO_TEXT)
    head = Head(bundle)
    query = None
    if options.rerank is not None:
        query = read.argument_record(options.rerank, 1, strict=options.strict).text
    with Output(options.output) as output:
        embedder = load(bundle, options)
        lines = Lines(options, head)
        ranked: list[tuple[float, int, Record]] = []
        count = 0
        for records in windows(options, embedder.batch_size * WINDOW_BATCHES):
            texts = [record.text for record in records]
            tokenizer = embedder.tokenizer
            if options.pairs:
                asked = [query_of(record, strict=options.strict) for record in records]
                rows = [
                    tokenizer.encode_pairs(one, [text])[0] for one, text in zip(asked, texts, strict=True)
                ]
            else:
                rows = tokenizer.encode(texts) if query is None else tokenizer.encode_pairs(query, texts)
            if options.tokens:
                said = [json.dumps([list(ids), list(types)], separators=(",", ":")) for ids, types in rows]
            else:
                made = [head.scores(vector) for vector in embedder.embed_tokens(rows)]
                scored = list(zip(range(count, count + len(records)), records, made, strict=True))
                found = [(scores[0], index, record) for index, record, scores in scored]
                if query is not None:
                    ranked += found
                    said = []
                elif bundle.task == "rank":
                    said = [lines.ranked(*one) for one in found]
                else:
                    said = [lines.classified(record, scores) for _, record, scores in scored]
            count += len(records)
            output.stream.write(lines.joined(said))
            output.stream.flush()
        if not count:
            raise UsageError("no text: the input is empty, or every line was skipped", NO_TEXT)
        # The best first; of equal ones, that which came first.
        ranked.sort(key=lambda one: -one[0])
        output.stream.write(lines.joined([lines.ranked(*one) for one in ranked]) + lines.end())
        embedder.finish()
    return 0


def query_of(record: Record, *, strict: bool) -> str:
    """The first text of a pair. Raises ``InputError``."""
    assert record.source is not None
    query = record.source.get("query")
    if not isinstance(query, str):
        said = "has no" if "query" not in record.source else "has no text in its"
        raise InputError(
            f"line {record.number} {said} field 'query'", "with --pairs, each object has a query and a text"
        )
    return read.without_surrogates(query, f"line {record.number}", strict=strict)


class Lines:
    """What is written of each text: JSON, or columns where a person looks."""

    def __init__(self, options: Namespace, head: Head) -> None:
        self._options, self._head = options, head
        self._format = options.output_format or usual_format(options)
        self._array = self._format == "json" and not options.tokens
        self._any = False

    def ranked(self, score: float, index: int, record: Record) -> str:
        if self._format == "table":
            return f"{score:.4f}\t{index}\t{shown(record.text)}"
        return f'{{"index":{index},"score":{score:.9g},{self._source(record)}}}'

    def classified(self, record: Record, scores: Sequence[float]) -> str:
        labels = self._head.labels
        best = max(range(len(scores)), key=scores.__getitem__)
        if self._format == "table":
            return f"{scores[best]:.4f}\t{shown(labels[best])}\t{shown(record.text)}"
        each = ",".join(f"{dumped(label)}:{score:.9g}" for label, score in zip(labels, scores, strict=True))
        said = f'"label":{dumped(labels[best])},"score":{scores[best]:.9g},"scores":{{{each}}}'
        return f"{{{self._source(record)},{said}}}"

    def joined(self, lines: Sequence[str]) -> bytes:
        """The lines as they are written, one after the other."""
        if not self._array:
            return "".join(f"{line}\n" for line in lines).encode()
        out = ""
        for line in lines:
            out += (",\n" if self._any else "[\n") + line
            self._any = True
        return out.encode()

    def end(self) -> bytes:
        return b"\n]\n" if self._array else b""

    def _source(self, record: Record) -> str:
        """The text, or the field that names the record."""
        field = self._options.id_field
        if field is not None and record.source is not None:
            return f"{dumped(field)}:{dumped(record.source[field])}"
        return f'"text":{dumped(record.text)}'


def shown(text: str) -> str:
    return text.translate(STEERING)


def dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
