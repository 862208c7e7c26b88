"""The command line of ``embed search``."""

from __future__ import annotations

from argparse import SUPPRESS

from ..base.errors import UsageError
from ..program.options import Help, Parser, add_number, check_input

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

SUFFIX = ".embed.npy"
NEAREST = 10

DESCRIPTION = f"""\
Prints the texts of FILE, or of standard input, that are nearest to QUERY: cosine, line number, text.
One text per line. Vectors are kept in FILE{SUFFIX}, so that a text is embedded once. Where the
model was trained with prefixes, queries and texts get theirs."""
EPILOG = """\
examples:
  embed search "a sleeping cat" notes.txt
  embed search -k 3 --json --jsonl --text-field body "a sleeping cat" docs.jsonl
  embed search --queries questions.txt --min 0.5 notes.txt
"""
NO_QUERY_HINT = 'pass one: embed search "a query" FILE, or several with --queries'


def parse(arguments: Sequence[str], program: str) -> Namespace:
    """The options of ``embed search``. Raises ``UsageError`` for what makes no sense."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser(program).parse_intermixed_args(arguments[:end])
    words = [*options.words, *arguments[end + 1 :]]
    options.query = words.pop(0) if words and options.queries is None else None
    if options.query is None and options.queries is None:
        raise UsageError("no query", NO_QUERY_HINT)
    if len(words) > 1:
        raise UsageError(f"one FILE at most: {words[1]!r} is another", "quote a query of several words")
    options.input = words[0] if words else None
    check_input(options, None)
    return options


def parser(program: str) -> ArgumentParser:
    made = Parser(
        program,
        usage=f"{program.replace('%', '%%')} [OPTIONS] QUERY [FILE]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=Help,
        allow_abbrev=False,
    )
    # What embedding texts asks of its own options.
    made.set_defaults(texts=[], prefix=None, similarity=None, id_field=None)
    made.add_argument("words", nargs="*", metavar="QUERY [FILE]", help="what is looked for, and where")
    add_number(made, "-k", f"how many texts to print (default: {NEAREST})", NEAREST, also=("--nearest",))
    least = "only texts with at least this cosine, from -1 to 1"
    add_number(made, "--min", least, -1.0, kind=cosine, metavar="COSINE")
    made.add_argument("--queries", metavar="FILE", help="one query per line, in place of QUERY")
    made.add_argument("--json", action="store_true", help="print one JSON object per query")
    made.add_argument("--index", metavar="FILE", help="keep the vectors in this file")
    for name in ("--jsonl", "--strict", "--skip-bad", "--allow-cpu"):
        made.add_argument(name, action="store_true", help="as for embed")
    for name, value in (("--text-field", "NAME"), ("--require-signature", "KEY")):
        made.add_argument(name, metavar=value, help="as for embed")
    for name in ("--dim", "--max-length", "--batch-size", "--threads"):
        add_number(made, name, "as for embed")
    made.add_argument("--debug", action="store_true", help=SUPPRESS)
    return made


def cosine(word: str) -> float:
    from argparse import ArgumentTypeError

    try:
        value = float(word) if set(word) <= set("0123456789.+-eE") else 2
    except ValueError:
        value = 2
    if not -1 <= value <= 1:
        raise ArgumentTypeError(f"{word!r} is not a number from -1 to 1")
    return value
