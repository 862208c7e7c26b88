"""The program of the bundle: what its command line asks for, done."""

import os
import sys
from collections.abc import Sequence

from .base.errors import EmbedError
from .base.open import open_bundle
from .base.streams import complain
from .program.options import parse
from .program.task import asked, asked_outputs, require_task


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
        complain(f"{type(error).__name__}: {error}", "this is a bug in the program; --debug shows where")
        return 1


def run(arguments: Sequence[str], directory: str, program: str) -> int:
    """Each way is imported when it is taken: what the bundle says of itself needs no model, and only a server asyncio."""
    if arguments[:1] == ["serve"]:
        from .serve.server import serve

        return serve(arguments[1:], directory, program=f"{program} serve")
    if arguments[:1] == ["search"]:
        from .search.search import search

        return search(arguments[1:], directory, program=f"{program} search")
    options = parse(arguments, program)
    bundle = open_bundle(directory, require_signature=options.require_signature)
    require_task(options, bundle)
    if (
        options.version
        or options.info
        or options.check
        or options.self_test
        or options.warmup
        or options.bench
    ):
        from .program import about

        return about.run(options, bundle)
    if asked(options):
        from .program import score

        return score.score(options, bundle)
    if asked_outputs(options):
        from .program import outputs

        return outputs.give(options, bundle)
    from .program import embed

    if options.tokens:
        return embed.print_tokens(options, bundle)
    if options.similarity is not None:
        return embed.similarity(options, bundle)
    return embed.embed(options, bundle)


def frozen_directory() -> str:
    """The bundle's folder: that of the program itself, through symbolic links, wherever it was started from."""
    return os.path.dirname(os.path.realpath(str(vars(sys)["_MEIPASS"])))
