"""The command that says whether a server's vectors are the model's."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgepack.cli.help import example
from edgepack.cli.options import (
    Figure,
    common_options,
    complete_model,
    mode_of,
    offline_option,
    reading_options,
)
from edgepack.cli.output import print_json, print_rich, say
from edgepack.errors import SubjectError, UsageError
from edgepack.records.target import Reading

if TYPE_CHECKING:
    from edgepack.doctor.subject import Subject

SCHEMA = 1
MODES = {"url": {"served_name", "token_env", "headers"}, "program": {"lines"}, "vectors": {"texts"}}


@click.command(epilog=example("edgepack doctor ./my-model --url http://127.0.0.1:8080/v1"))
@click.argument("model", metavar="MODEL", shell_complete=complete_model)
@reading_options
@click.option("--url", metavar="URL", help="OpenAI-compatible server: http://HOST:PORT/v1.")
@click.option(
    "--served-name", metavar="NAME", help="Name of the model on the server. [default: the first listed]"
)
@click.option("--token-env", metavar="VARIABLE", help="Environment variable with the server's token.")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME: VALUE", help="Header to send (repeatable)."
)
@click.option(
    "--command",
    "program",
    metavar='"PROGRAM ARGS"',
    help="Program that reads JSON lines and writes vectors.",
)
@click.option("--lines", is_flag=True, help="The program reads plain texts, one per line.")
@click.option(
    "--vectors",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Vectors: .npy of shape [texts, dimension], or JSON lines with `text` and `embedding`.",
)
@click.option(
    "--texts",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Texts of --vectors: one per line, .jsonl or .json.",
)
@click.option(
    "--prefix",
    metavar="NAME|TEXT",
    help="Prefix that each text is expected to get: the name of a prompt, or the text itself.",
)
@click.option(
    "--max-length",
    type=click.IntRange(min=2),
    metavar="TOKENS",
    help="Length that texts are expected to be truncated to.",
)
@click.option(
    "--dimensions",
    type=click.IntRange(min=1),
    metavar="N",
    help="Expected dimension of the vectors; also sent with each request.",
)
@click.option(
    "--min-cosine",
    type=Figure(0, 1),
    default=0.98,
    show_default=True,
    help="Lowest acceptable mean cosine of a quantized model.",
)
@click.option(
    "--timeout",
    type=Figure(min=0, min_open=True),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Time for all questions to a server or program together.",
)
@offline_option
@common_options
def doctor(
    model: str,
    reading: Reading,
    vectors: Path | None,
    texts: Path | None,
    prefix: str | None,
    max_length: int | None,
    min_cosine: float,
    offline: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Check whether a server, program or file has the right vectors.

    If the vectors are not those of MODEL, doctor names the mistake that explains them. MODEL is a folder, an .onnx file, hf:ORG/NAME[@REV], pypi:PACKAGE==VERSION, an https URL, or a name from `edgepack
    models`. At most 425 texts are sent, only to the given address. The exit code is that of the verdict (docs/doctor.md);
    0: same vectors.
    """
    started = time.monotonic()
    from edgepack.console import Story
    from edgepack.doctor.examine import Expected, diagnose, instruments
    from edgepack.doctor.gather import FEWEST, Gathered, gather
    from edgepack.doctor.probes import some_of
    from edgepack.doctor.search import Observed
    from edgepack.doctor.show import as_dict, render
    from edgepack.doctor.subject import read_vectors
    from edgepack.models.find.source import ingest
    from edgepack.plugins.context import host_context
    from edgepack.verifier.gate import verification_texts

    url, program, dimensions = asked["url"], asked["program"], asked["dimensions"]
    if sum(each is not None for each in (url, program, vectors)) != 1:
        raise UsageError(
            "give exactly one of --url, --command and --vectors",
            hint="edgepack doctor MODEL --url http://HOST/v1",
        )
    mode_of(click.get_current_context(), MODES)
    story = Story(quiet=as_json)
    with host_context(story=story, offline=offline) as context:
        with story.step("model"):
            source = ingest(model, reading=reading, context=context)
            tools = instruments(source, context=context)
        expected = Expected(
            prefix=source.prompts.get(source.default_prompt or "", "")
            if prefix is None
            else source.prompts.get(prefix, prefix),
            length=max_length or source.max_length,
            dimension=dimensions or source.dimension,
            min_cosine=min_cosine,
        )
        with story.step("ask"):
            if vectors is not None:
                said, rows = read_vectors(vectors, texts)
                chosen = some_of(said)
                if len(chosen) < FEWEST:
                    raise SubjectError(
                        f"{vectors.name} holds vectors of {len(chosen)} different texts",
                        hint=f"at least {FEWEST} are needed to tell one mistake from another",
                    )
                observed = Observed(texts=tuple(said[at] for at in chosen), vectors=rows[chosen])
                gathered = Gathered(observed=observed, sent=0)
            else:
                with _subject(**asked) as subject:
                    gathered = gather(
                        subject, verification_texts(), source.prompts, expected.length, tools.reader
                    )
            context.note(
                f"{len(gathered.observed.texts)} texts, {gathered.sent} sent, at most {gathered.largest} at once"
            )
        with story.step("examine"):
            made = diagnose(gathered, expected, tools, subject=str(url or program or vectors))
    if as_json:
        print_json({"schema": SCHEMA, **as_dict(made), "seconds": round(time.monotonic() - started, 1)})
    else:
        print_rich(render(made))
        say(made.line)
    raise SystemExit(made.exit_code)


@contextmanager
def _subject(
    url: str | None,
    program: str | None,
    lines: bool,
    served_name: str | None,
    token_env: str | None,
    headers: tuple[str, ...],
    dimensions: int | None,
    timeout: float,
) -> "Iterator[Subject]":
    from edgepack.doctor.endpoint import connected
    from edgepack.doctor.program import parse_command
    from edgepack.doctor.subject import Deadline

    deadline = Deadline(seconds=timeout)

    if url is None:
        yield parse_command(program or "", lines=lines, deadline=deadline)
        return
    given = {}
    for header in headers:
        name, colon, value = header.partition(":")
        if not colon or not name.strip():
            raise UsageError(f"--header {header}: expected NAME: VALUE")
        given[name.strip()] = value.strip()
    if token_env is not None:
        if not os.environ.get(token_env):
            raise UsageError(f"the environment variable {token_env} is not set", hint=f"export {token_env}=…")
        given["Authorization"] = f"Bearer {os.environ[token_env]}"
    with connected(url, model=served_name, headers=given, dimensions=dimensions, deadline=deadline) as server:
        yield server
