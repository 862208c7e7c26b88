"""The command line of the program in the bundle."""

from __future__ import annotations

import os
import sys
from argparse import SUPPRESS, ArgumentParser, HelpFormatter

from .bundle import Bundle
from .errors import EmbedError, InputError, UsageError
from .write import FORMATS, Output, writer_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator, Sequence
    from typing import NoReturn

    from .embedder import Embedder
    from .read import Record

WIDTH = 100
WINDOW_BATCHES = 32
"""Batches that are read ahead, so that texts of like length meet in one."""

DESCRIPTION = "Turns texts into embedding vectors with the model of the bundle that this program lies in."
EPILOG = """\
examples:
  embed "a sentence" "another one"               JSON: text and embedding of each
  embed --in jsonl --field body < docs.jsonl     each object gains "embedding"
  embed --out npy --output v.npy < lines.txt     a NumPy file, float32 [lines, dimension]
  embed --similarity "a cat" "a kitten"          the cosine of the two

exit codes:
  0 done    2 wrong arguments, or no text    3 bad input (the line is named)    4 bundle damaged
  5 library or model does not load or run    6 self-test failed    7 output cannot be written
"""


class _Parser(ArgumentParser):
    def print_help(self, file: object = None) -> None:
        """Through the same door as everything else: a full disk is an error here too."""
        with Output(None) as output:
            output.stream.write(self.format_help().encode())

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"{self.prog} --help lists what there is")


class _Help(HelpFormatter):
    """Keeps line breaks, and a width of its own: asking the terminal costs start-up time."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=WIDTH, max_help_position=28)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "".join(indent + line for line in text.splitlines(keepends=True))


def parser(program: str) -> ArgumentParser:
    made = _Parser(program, description=DESCRIPTION, epilog=EPILOG, formatter_class=_Help, allow_abbrev=False)
    made.add_argument("texts", nargs="*", metavar="TEXT", help="a text; without any, standard input is read")
    reading = made.add_argument_group("reading")
    reading.add_argument(
        "--in",
        dest="input_format",
        choices=("text", "jsonl"),
        help="what comes in: a text a line (default), or a JSON object a line",
    )
    reading.add_argument(
        "--field", metavar="NAME", help='where the text is in a JSON object (default: "text")'
    )
    reading.add_argument("--input", metavar="FILE", help="read this file instead of standard input")
    reading.add_argument(
        "--strict", action="store_true", help="refuse what is not UTF-8 instead of replacing it"
    )
    writing = made.add_argument_group("writing")
    writing.add_argument(
        "--out",
        dest="output_format",
        choices=FORMATS,
        help="json: an array of objects (default for TEXT); jsonl: an object a line (default otherwise); "
        "npy: NumPy, float32 [texts, dimension]; f32: little-endian numbers only",
    )
    writing.add_argument("--output", metavar="FILE", help="write this file instead of standard output")
    working = made.add_argument_group("working")
    working.add_argument(
        "--batch-size",
        type=positive,
        metavar="N",
        help="texts at once (default: 4, or 1 where a text's vector depends on its batch)",
    )
    working.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="processor threads (default: as many as there are, up to 4)",
    )
    other = made.add_argument_group("instead of embedding").add_mutually_exclusive_group()
    other.add_argument("--similarity", nargs=2, metavar=("A", "B"), help="print the cosine of two texts")
    other.add_argument("--info", action="store_true", help="say what this bundle is")
    other.add_argument(
        "--self-test", action="store_true", help="check every file, and the vectors of texts with known ones"
    )
    other.add_argument("--version", action="store_true", help="print the versions")
    made.add_argument("--json", action="store_true", help="print --info and --self-test as JSON")
    made.add_argument("--debug", action="store_true", help=SUPPRESS)
    return made


def positive(word: str) -> int:
    from argparse import ArgumentTypeError

    if not word.isascii() or not word.isdigit() or not 0 < int(word) < 1 << 16:
        raise ArgumentTypeError(f"{word!r} is not a number from 1 to 65535")
    return int(word)


def main(arguments: Sequence[str], directory: str, *, program: str = "embed") -> int:
    """Run the program for the bundle in ``directory``; the exit code. Interrupts go on to the caller."""
    if "--debug" in arguments:
        return run(parser(program).parse_args(arguments), directory)
    try:
        return run(parser(program).parse_args(arguments), directory)
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
    """Two lines on standard error, whatever state it is in."""
    text = f"error: {message}\n" + (f"hint: {hint}\n" if hint else "")
    try:  # noqa: SIM105 - contextlib would be imported for this alone
        os.write(2, text.encode("utf-8", "backslashreplace"))
    except OSError:
        pass


def run(options: Namespace, directory: str) -> int:
    check(options)
    if options.version or options.info or options.self_test:
        from . import about

        return about.run(options, Bundle(directory))
    if options.similarity is None:
        return embed(options, Bundle(directory))
    return similarity(options, Bundle(directory))


def check(options: Namespace) -> None:
    """Combinations that make no sense."""
    instead = next(
        (name for name in ("similarity", "info", "self_test", "version") if getattr(options, name)), None
    )
    reading = next((name for name in ("input_format", "field", "input") if getattr(options, name)), None)
    if instead and (options.texts or reading):
        raise UsageError(f"--{instead.replace('_', '-')} takes no texts to embed")
    if options.json and instead not in ("info", "self_test"):
        raise UsageError("--json goes with --info or --self-test", "vectors as JSON: --out json")
    if options.texts and reading:
        raise UsageError("texts on the command line and --in, --field or --input do not go together")
    if options.field and options.input_format != "jsonl":
        raise UsageError("--field goes with --in jsonl")


def load(bundle: Bundle, options: Namespace) -> Embedder:
    from .embedder import Embedder
    from .signals import answer_aborts

    answer_aborts()
    return Embedder(bundle, batch_size=options.batch_size, threads=options.threads)


def similarity(options: Namespace, bundle: Bundle) -> int:
    from .embedder import cosine
    from .read import argument_record

    texts = [
        argument_record(text, position, strict=options.strict).text
        for position, text in enumerate(options.similarity, 1)
    ]
    # Each alone: in a batch, one text could move the other's vector.
    embedder = load(bundle, options)
    first, second = (embedder.embed([text])[0] for text in texts)
    with Output(options.output) as output:
        output.stream.write(b"%.6f\n" % cosine(first, second))
    return 0


def embed(options: Namespace, bundle: Bundle) -> int:
    if not options.texts and not options.input and is_terminal(0):
        raise UsageError("no text", 'give one: embed "a sentence", or lines on standard input')
    embedder = load(bundle, options)
    count = len(options.texts) or None
    format = options.output_format or ("json" if options.texts else "jsonl")
    with Output(options.output) as output:
        writer = None
        for records in windows(options, embedder.batch_size * WINDOW_BATCHES):
            writer = writer or writer_for(format, output.stream, dimension=bundle.dimension, count=count)
            vectors = embedder.embed([record.text for record in records])
            for record, vector in zip(records, vectors, strict=True):
                writer.write(record, vector)
            output.stream.flush()
        if writer is None:
            raise UsageError(
                "no text: the input is empty", 'give one: embed "a sentence", or lines on standard input'
            )
        writer.finish()
    return 0


def windows(options: Namespace, size: int) -> Iterator[list[Record]]:
    """The records to embed, ``size`` at most at a time; what comes before a bad line is handed out before the error."""
    from . import read

    if options.texts:
        pairs = enumerate(options.texts, 1)
        yield from windowed(
            (read.argument_record(text, position, strict=options.strict) for position, text in pairs), size
        )
        return
    descriptor = open_input(options.input)
    for lines in read.read_lines(descriptor, size):
        if options.input_format == "jsonl":
            yield from windowed(
                read.json_records(lines, field=options.field or "text", strict=options.strict), size
            )
        else:
            yield from windowed(read.text_records(lines, strict=options.strict), size)


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
