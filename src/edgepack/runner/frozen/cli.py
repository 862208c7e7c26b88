"""The program of the bundle: what its command line asks for, done."""

from __future__ import annotations

import os
import sys

from .bundle import Bundle
from .errors import EmbedError, InputError, UsageError
from .options import parse
from .write import Output, writer_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator, Sequence

    from .embedder import Embedder
    from .read import Record

WINDOW_BATCHES = 32
"""Batches that are read ahead, so that texts of like length meet in one."""
TOKENS_WINDOW = 1000
NO_TEXT_HINT = 'give one: embed "a sentence", or lines on standard input'


def main(arguments: Sequence[str], directory: str, *, program: str = "embed") -> int:
    """Run the program for the bundle in ``directory``; the exit code. Interrupts go on to the caller."""
    if "--debug" in arguments:
        return run(arguments, directory, program)
    try:
        return run(arguments, directory, program)
    except EmbedError as error:
        complain(error.message, error.hint)
        return error.exit_code
    except MemoryError:
        complain("out of memory", "a smaller --batch-size needs less")
        return 1
    except Exception as error:
        complain(f"{type(error).__name__}: {error}", "this is a fault of the program; --debug shows where")
        return 1


def complain(message: str, hint: str = "") -> None:
    """Two lines on standard error."""
    say(f"error: {message}\n" + (f"hint: {hint}\n" if hint else ""))


def say(text: str) -> None:
    """On standard error, whatever state it is in."""
    try:  # noqa: SIM105 - contextlib would be imported for this alone
        os.write(2, text.encode("utf-8", "backslashreplace"))
    except OSError:
        pass


def run(arguments: Sequence[str], directory: str, program: str) -> int:
    if arguments[:1] == ["serve"]:
        from .serve import serve

        return serve(arguments[1:], directory, program=f"{program} serve")
    options = parse(arguments, program)
    bundle = Bundle(directory)
    if options.version or options.info or options.self_test or options.warmup or options.bench:
        from . import about

        return about.run(options, bundle)
    if options.tokens:
        return print_tokens(options, bundle)
    return embed(options, bundle) if options.similarity is None else similarity(options, bundle)


def load(bundle: Bundle, options: Namespace) -> Embedder:
    from .embedder import Embedder
    from .signals import answer_aborts

    answer_aborts()
    embedder = Embedder(
        bundle,
        batch_size=options.batch_size,
        threads=options.threads,
        max_length=options.max_length,
        prefix=options.prefix,
        dimension=options.dim,
        allow_cpu=options.allow_cpu,
        alone=options.similarity is not None or len(options.texts) == 1,
    )
    if is_terminal(2):
        say(embedder.engine.at_start())
    return embedder


def print_tokens(options: Namespace, bundle: Bundle) -> int:
    """A list of token ids a line, for who wants to compare tokenizers."""
    from .tokens import open_tokens

    tokens = open_tokens(bundle, max_length=options.max_length or bundle.max_length, threads=1)
    with Output(options.output) as output:
        for records in windows(options, TOKENS_WINDOW):
            for ids, _ in tokens.encode([record.text for record in records]):
                output.stream.write(f"[{','.join(map(str, ids))}]\n".encode())
            output.stream.flush()
    return 0


def similarity(options: Namespace, bundle: Bundle) -> int:
    from .embedder import cosine
    from .read import argument_record

    texts = [
        argument_record(text, position, strict=options.strict).text
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
            raise UsageError("no text: the input is empty, or nothing in it is good", NO_TEXT_HINT)
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
    from . import read

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


def is_terminal(descriptor: int) -> bool:
    """Whether a person sits there; a closed descriptor counts, for nothing will come from it either."""
    try:
        return os.isatty(descriptor) or not os.fstat(descriptor)
    except OSError:
        return True


def frozen_directory() -> str:
    """The bundle's folder: that of the program itself, through symbolic links, wherever it was started from."""
    return os.path.dirname(os.path.realpath(str(vars(sys)["_MEIPASS"])))
