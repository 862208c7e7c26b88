"""What may stand on the program's command line, and which of it goes together."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, HelpFormatter

from ..base.errors import UsageError
from .numbers import TYPES
from .write import FORMATS, Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace, _ActionsContainer, _ArgumentGroup
    from collections.abc import Callable, Sequence
    from typing import NoReturn

WIDTH = 100

DESCRIPTION = """\
Turns texts into embedding vectors with the model of this bundle.
"embed search" prints the texts of a file that are nearest to a query; see "embed search --help".
"embed serve" answers over HTTP instead; see "embed serve --help"."""
EPILOG = """\
examples:
  embed "a sentence" "another one"                  JSON: text and embedding of each
  embed --jsonl --text-field body < docs.jsonl      adds "embedding" to each object
  embed --jsonl --id-field id < docs.jsonl          writes only "id" and "embedding"
  embed --out npy --output v.npy < lines.txt        a NumPy file, float32 [lines, dimension]
  embed --similarity "a cat" "a kitten"             the cosine of the two
  embed search "a cat" notes.txt                    the lines that are nearest to it
  embed -- serve                                    the text "serve"

exit codes:
  0 success    2 invalid arguments, or no text    3 invalid input line    4 damaged bundle
  5 library or model does not load or run    6 self-test failed    7 output cannot be written
  8 the server cannot listen
  9 GPU, driver or GPU libraries do not match the bundle (bundles for GPUs)
"""
INSTEAD = ("similarity", "info", "check", "self_test", "warmup", "bench", "version")
SHAPING = ("prefix", "max_length", "dim")
READING = ("input", "jsonl", "text_field", "id_field", "skip_bad")


class Parser(ArgumentParser):
    """Prints help through the same door as everything else, and raises ``UsageError``."""

    def print_help(self, file: object = None) -> None:
        with Output(None) as output:
            output.stream.write(self.format_help().encode())

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"see {self.prog} --help")


class Help(HelpFormatter):
    """Keeps line breaks, and a width of its own: asking the terminal costs start-up time."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=WIDTH, max_help_position=24)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "".join(indent + line for line in text.splitlines(keepends=True))


def parse(arguments: Sequence[str], program: str) -> Namespace:
    """The options of ``embed``. Raises ``UsageError`` for what is invalid."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser(program).parse_intermixed_args(arguments[:end])
    options.texts = [*options.texts, *arguments[end + 1 :]]
    check(options)
    return options


def parser(program: str) -> ArgumentParser:
    # Said here: each version of argparse breaks a long line of options elsewhere, and the text is in the native program.
    made = Parser(
        program,
        usage=f"{program.replace('%', '%%')} [OPTIONS] [TEXT ...]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=Help,
        allow_abbrev=False,
    )
    made.add_argument(
        "texts", nargs="*", metavar="TEXT", help="a text; without TEXT, one text per line of standard input"
    )
    add_reading(made.add_argument_group("reading"))
    add_writing(made.add_argument_group("writing"))
    add_working(made.add_argument_group("working"))
    add_scoring(made.add_argument_group("with a reranker or a classifier"))
    add_outputs(made.add_argument_group("with a model of other outputs (SPLADE, ColBERT, BGE-M3)"))
    other = made.add_argument_group("instead of embedding").add_mutually_exclusive_group()
    other.add_argument("--similarity", nargs=2, metavar=("A", "B"), help="print the cosine of two texts")
    other.add_argument("--info", action="store_true", help="describe this bundle")
    other.add_argument("--check", action="store_true", help="check every file against the manifest")
    other.add_argument(
        "--self-test", action="store_true", help="check every file, and compare vectors with golden ones"
    )
    other.add_argument(
        "--warmup",
        action="store_true",
        help="prepare the GPU: compile and cache its kernels, then compare vectors as --self-test does",
    )
    other.add_argument("--bench", action="store_true", help="measure the speed of this device")
    other.add_argument("--version", action="store_true", help="print the versions")
    made.add_argument(
        "--require-signature",
        metavar="KEY",
        help="first require that the bundle is signed with this public key (a file; docs/signing.md)",
    )
    made.add_argument(
        "--json", action="store_true", help="print --info, --check, --self-test or --bench as JSON"
    )
    made.add_argument("--debug", action="store_true", help=SUPPRESS)
    made.add_argument("--tokens", action="store_true", help=SUPPRESS)
    made.add_argument("--features", action="store_true", help=SUPPRESS)
    return made


def add_reading(group: _ArgumentGroup) -> None:
    group.add_argument("--input", metavar="FILE", help="read this file instead of standard input")
    group.add_argument(
        "--jsonl", action="store_true", help="each line is a JSON object with the text in a field"
    )
    group.add_argument("--text-field", metavar="NAME", help='field that holds the text (default: "text")')
    group.add_argument(
        "--id-field",
        metavar="NAME",
        help="write only this field and the embedding, not the whole object",
    )
    group.add_argument(
        "--strict",
        action="store_true",
        help="reject input that is not UTF-8 instead of replacing it with U+FFFD",
    )
    group.add_argument(
        "--skip-bad",
        action="store_true",
        help="report bad lines on standard error and continue (the exit code is still 0)",
    )


def add_writing(group: _ArgumentGroup) -> None:
    group.add_argument(
        "--out",
        dest="output_format",
        choices=FORMATS,
        help="json: an array of objects (default for TEXT); jsonl: one object per line (default otherwise); "
        "npy: NumPy array [texts, dimension]; npz: NumPy arrays of --sparse and --multi-vector; raw: numbers only; "
        "table: for reading (default on a terminal)",
    )
    group.add_argument("--output", metavar="FILE", help="write to this file instead of standard output")
    group.add_argument(
        "--dtype",
        choices=TYPES,
        default="f32",
        help="f32 (default) or f16: IEEE 754, little-endian; int8: each vector times 127 / its largest "
        "magnitude; binary: one bit per number, 1 if it is above 0, most significant bit first",
    )
    dim = "keep the first N numbers and re-normalize (for models with Matryoshka training)"
    add_number(group, "--dim", dim)


def add_working(group: _ArgumentGroup) -> None:
    group.add_argument(
        "--prefix",
        choices=("query", "passage"),
        help="add the prefix that the model expects before a query or a passage",
    )
    add_number(
        group,
        "--max-length",
        "truncate texts to N tokens, special tokens included (default: the model's limit)",
    )
    add_number(
        group,
        "--batch-size",
        "texts per batch (default: 8, fewer if they are long; 1 if the model is not batch-independent)",
    )
    add_number(
        group,
        "--threads",
        "CPU threads; a batch runs on one of them (default: one per CPU, at most 4)",
    )
    group.add_argument(
        "--allow-cpu",
        action="store_true",
        help="use the CPU if the GPU that the bundle is for cannot be used",
    )


def add_scoring(group: _ArgumentGroup) -> None:
    group.add_argument(
        "--rerank", metavar="QUERY", help="print the texts with their scores for this query, the best first"
    )
    group.add_argument("--classify", action="store_true", help="print each text's label and scores")
    group.add_argument(
        "--pairs",
        action="store_true",
        help='with --jsonl: score the "query" of each object together with its text, in the order of the input',
    )


def add_outputs(group: _ArgumentGroup) -> None:
    group.add_argument(
        "--sparse", action="store_true", help="write the weights of each text's tokens, by token id"
    )
    group.add_argument("--multi-vector", action="store_true", help="write a vector for each token of a text")
    group.add_argument("--dense", action="store_true", help="with these, write the text's own vector as well")


def add_number(
    group: _ActionsContainer,
    name: str,
    help: str,
    default: float | None = None,
    *,
    kind: Callable[[str], float] | None = None,
    metavar: str = "N",
    also: Sequence[str] = (),
) -> None:
    """An option that takes a number, a ``positive`` one where no other kind is named."""
    group.add_argument(name, *also, type=kind or positive, metavar=metavar, default=default, help=help)


def positive(word: str) -> int:
    from argparse import ArgumentTypeError

    if not word.isascii() or not word.isdigit() or not 0 < int(word) < 1 << 16:
        raise ArgumentTypeError(f"{word!r} is not a number from 1 to 65535")
    return int(word)


def check(options: Namespace) -> None:
    """Combinations that make no sense."""
    instead, reading = _first(options, INSTEAD), _first(options, READING)
    if instead:
        _check_instead(options, instead, reading)
    if options.json and instead not in ("info", "check", "self_test", "warmup", "bench"):
        raise UsageError(
            "--json requires --info, --check, --self-test or --bench", "for vectors as JSON: --out json"
        )
    check_input(options, reading)
    if options.output_format == "table" and options.dtype != "f32":
        raise UsageError("a table shows f32 only: --dtype does not apply")
    if options.id_field == "embedding":
        raise UsageError('--id-field cannot be "embedding": the vector has that name')


def _check_instead(options: Namespace, instead: str, reading: str | None) -> None:
    """What does not go with an option that does something else than to embed texts."""
    if options.texts or reading:
        raise UsageError(f"{flag(instead)} takes no texts to embed")
    if options.output_format or options.dtype != "f32":
        raise UsageError(f"{flag(instead)} writes no vectors: --out and --dtype do not apply")
    shaping = _first(options, SHAPING)
    if instead != "similarity" and shaping:
        raise UsageError(f"{flag(shaping)} cannot be used with {flag(instead)}")


def check_input(options: Namespace, reading: str | None) -> None:
    """What does not go together of ``READING``, the first of which is ``reading``."""
    if options.texts and reading:
        raise UsageError(f"texts on the command line cannot be used with {flag(reading)}")
    if (options.text_field or options.id_field) and not options.jsonl:
        raise UsageError(f"{flag('text_field' if options.text_field else 'id_field')} requires --jsonl")
    if options.skip_bad and not (options.jsonl or options.strict):
        raise UsageError("--skip-bad requires --jsonl or --strict", "in other input, no line can be bad")


def _first(options: Namespace, names: Sequence[str]) -> str | None:
    """The first of these options that was given."""
    return next((name for name in names if getattr(options, name)), None)


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")
