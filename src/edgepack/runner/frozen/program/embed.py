"""Embedding what the command line gives or names, and what is a part of that: two texts' cosine, the token ids."""

import os
from argparse import Namespace
from collections.abc import Iterable, Iterator

from ..base.bundle import Bundle
from ..base.errors import InputError, UsageError
from ..base.streams import is_terminal, say
from ..model.embedder import cosine
from ..tokenizer.open import open_tokenizer
from . import read
from .load import load
from .read import Record
from .write import Output, writer_for

WINDOW_BATCHES = 32
"""Batches that are read ahead, so that texts of like length meet in one."""
TOKENS_WINDOW = 1000
NO_TEXT_HINT = 'pass a text: embed "a sentence", or lines on standard input'


def print_tokens(options: Namespace, bundle: Bundle) -> int:
    """A list of token ids a line, for who wants to compare tokenizers."""
    tokenizer = open_tokenizer(bundle, max_length=options.max_length or bundle.max_length, threads=1)
    with Output(options.output) as output:
        for records in windows(options, TOKENS_WINDOW):
            for ids, _ in tokenizer.encode([record.text for record in records]):
                output.stream.write(f"[{','.join(map(str, ids))}]\n".encode())
            output.stream.flush()
    return 0


def similarity(options: Namespace, bundle: Bundle) -> int:
    texts = [
        read.argument_record(text, position, strict=options.strict).text
        for position, text in enumerate(options.similarity, 1)
    ]
    with Output(options.output) as output:
        embedder = load(bundle, options)
        # Each alone: in a batch, one text could move the other's vector.
        first, second = (embedder.embed([text])[0] for text in texts)
        output.stream.write(b"%.6f\n" % cosine(first, second))
        embedder.finish()
    return 0


def embed(options: Namespace, bundle: Bundle) -> int:
    if not options.texts and not options.input and is_terminal(0):
        raise UsageError("no text", NO_TEXT_HINT)
    format = options.output_format or usual_format(options)
    with Output(options.output) as output:
        embedder = load(bundle, options)
        writer = None
        for records in windows(options, embedder.batch_size * WINDOW_BATCHES):
            writer = writer or writer_for(
                format,
                output.stream,
                type=options.dtype,
                dimension=embedder.dimension,
                count=len(options.texts) or None,
                id_field=options.id_field,
            )
            vectors = embedder.embed([record.text for record in records])
            for record, vector in zip(records, vectors, strict=True):
                writer.write(record, vector)
            output.stream.flush()
        if writer is None:
            raise UsageError("no text: the input is empty, or every line was skipped", NO_TEXT_HINT)
        writer.finish()
        embedder.finish()
    return 0


def usual_format(options: Namespace) -> str:
    """A table where a person looks, else JSON."""
    if options.output is None and options.dtype == "f32" and is_terminal(1):
        return "table"
    return "json" if options.texts else "jsonl"


def name_skipped(error: InputError) -> None:
    say(f"skipped: {error.message}\n")


def windows(options: Namespace, size: int) -> Iterator[list[Record]]:
    """The records to embed, ``size`` at most at a time; what comes before a bad line is handed out before the error."""
    skip = name_skipped if options.skip_bad else None
    if options.texts:
        pairs = enumerate(options.texts, 1)
        yield from windowed(
            (read.argument_record(text, position, strict=options.strict) for position, text in pairs), size
        )
        return
    descriptor = open_input(options.input)
    for lines in read.read_lines(descriptor, size):
        if options.jsonl:
            records = read.json_records(
                lines,
                text_field=options.text_field or "text",
                id_field=options.id_field,
                strict=options.strict,
                skip=skip,
            )
        else:
            records = read.text_records(lines, strict=options.strict, skip=skip)
        yield from windowed(records, size)


def windowed(records: Iterable[Record], size: int) -> Iterator[list[Record]]:
    window: list[Record] = []
    failure: InputError | None = None
    try:
        for record in records:
            window.append(record)
            if len(window) == size:
                yield window
                window = []
    except InputError as error:
        failure = error
    if window:
        yield window
    if failure:
        raise failure


def open_input(path: str | None) -> int:
    if path is None:
        return 0
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
