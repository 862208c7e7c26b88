"""Options that several commands share."""

import logging
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Set
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, get_args

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from edgepack.errors import UsageError
from edgepack.files.folder import require_kind, require_outside
from edgepack.records.target import PROMPTED, PoolingMode, Reading

Command = TypeVar("Command", bound=Callable[..., Any])


class Written(click.Path):
    """A file that a command writes. One that lies there already is replaced only where it begins so: whoever mistypes a path keeps it.

    Whatever a command writes has this type, or places that look themselves (a test has the list).
    """

    def __init__(self, replaces: re.Pattern[bytes]) -> None:
        super().__init__(path_type=Path, dir_okay=False)
        self.replaces = replaces


class Figure(click.FloatRange):
    """A number in a range; click takes one for it that is none, against which nothing is too small."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Fail for nan."""
        number = super().convert(value, param, ctx)
        return self.fail(f"{value!r} is no number", param, ctx) if math.isnan(number) else number


def size(text: str) -> int:
    """Bytes of an option's ``2 GB`` or ``512 MiB``."""
    from edgepack.targets import parse_size

    try:
        return parse_size(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def names_of(axis: str) -> Callable[..., list[CompletionItem]]:
    """Completes what plugins and edgepack itself bring for an axis; ``target``: names of targets."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from edgepack.plugins.host import load_plugins

        host = load_plugins()
        return beginning_with(incomplete, host.target_files if axis == "target" else host.extensions(axis))

    return complete


def complete_model(
    context: click.Context, parameter: click.Parameter | None, incomplete: str
) -> list[CompletionItem]:
    """Names of the catalogue; where none begins so, files and folders."""
    from edgepack.models.find.catalogue import load_catalogue

    names = [name for each in load_catalogue().entries for name in (each.name, each.short_name)]
    return beginning_with(incomplete, names) or [CompletionItem(incomplete, type="file")]


class WithModel(click.Command):
    """A command that finds MODEL among the words that ``builder_flags`` leaves: click knows of no such argument."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        flags = super().shell_complete(ctx, incomplete)
        return flags if incomplete.startswith("-") else complete_model(ctx, None, incomplete)


def beginning_with(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def common_options(command: Command) -> Command:
    """``--json`` and ``--debug``, which every command has; and what it is to write is looked at before it does anything."""

    @wraps(command)
    def looked(*args: Any, **options: Any) -> Any:
        _require_written_apart(click.get_current_context())
        return command(*args, **options)

    made: Any = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(looked)
    return click.option(  # type: ignore[no-any-return]
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_set_debug,
        help="Log everything and show tracebacks.",
    )(made)


def _require_written_apart(context: click.Context) -> None:
    """Raise ``UsageError`` where a file would be written over another, over one of the same command, or into what the command reads."""
    paths = [each for each in context.command.params if isinstance(each.type, click.Path)]
    said = [(each, context.params.get(each.name or "")) for each in paths]
    places: dict[Path, str] = {}
    for parameter, path in said:
        if not isinstance(parameter.type, Written) or path is None:
            continue
        require_kind(path, parameter.type.replaces)
        for other, read in said:
            if not isinstance(other.type, Written) and isinstance(read, Path):
                require_outside(path, read)
        if (first := places.setdefault(path.resolve(), parameter.opts[-1])) != parameter.opts[-1]:
            raise UsageError(f"{first} and {parameter.opts[-1]} name one file, {path}", hint="name two files")


def mode_of(context: click.Context, modes: Mapping[str, Set[str]]) -> str:
    """The mode that a command runs in: the first option of ``modes`` that was given, of those that have one; ``""``, if it is none.

    ``modes`` has what each of them takes besides what all do. Raises ``click.UsageError`` where an option was given that this mode does not take: it would be
    dropped without a word.
    """
    known = {each.name: each for each in context.command.params if each.name}
    given = [
        name for name in known if context.get_parameter_source(name) not in (None, ParameterSource.DEFAULT)
    ]
    mode = next((name for name in modes if name in given), "")
    for name in given:
        takers = [each for each in modes if name == each or name in modes[each]]
        if not takers or mode in takers:
            continue
        option = known[name].opts[-1]
        if mode:
            raise click.UsageError(f"{known[mode].opts[-1]} goes without {option}")
        raise click.UsageError(f"{option} requires {' or '.join(known[each].opts[-1] for each in takers)}")
    return mode


def offline_option(command: Command) -> Command:
    """``--offline``, for commands that may fetch something: the argument ``offline`` of ``host_context``."""
    return click.option("--offline", is_flag=True, help="Download nothing; use the cache.")(command)


def file_option(
    name: str, help: str, *, exists: bool = False, replaces: re.Pattern[bytes] | None = None
) -> Callable[[Command], Command]:
    """A file that is read, which may have to be there; or one that is written, in the place of none but one that begins as ``replaces``."""
    kind = Written(replaces) if replaces else click.Path(path_type=Path, exists=exists, dir_okay=False)
    return click.option(name, type=kind, metavar="FILE", help=help)


def output_option(
    default: str, help: str, *, metavar: str = "DIR", replaces: re.Pattern[bytes] | None = None
) -> Callable[[Command], Command]:
    """``-o``, where a command puts what it makes: a folder, or with ``replaces`` a file as of ``file_option``."""
    kind = Written(replaces) if replaces else click.Path(path_type=Path)
    return click.option(
        "-o", "--output", type=kind, default=Path(default), show_default=True, metavar=metavar, help=help
    )


def _set_debug(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        context.find_root().meta["edgepack.debug"] = True
        logging.basicConfig(level=logging.DEBUG, stream=sys.stderr, format="%(name)s: %(message)s")
        # httpx shows addresses with what is secret in them.
        for noisy in ("httpcore", "httpx", "filelock"):
            logging.getLogger(noisy).setLevel(logging.WARNING)


def reading_options(command: Command) -> Command:
    """How the model is to be read, where its files do not say it: the argument ``reading``."""

    @wraps(command)
    def with_reading(
        *args: Any,
        pooling: Any,
        normalize: bool | None,
        prompts: tuple[tuple[str, str], ...],
        treat_as_embedding: bool,
        route: str | None,
        **others: Any,
    ) -> Any:
        reading = Reading(
            pooling=pooling,
            normalize=normalize,
            prompts=dict(prompts),
            treat_as_embedding=treat_as_embedding,
            route=route,
        )
        return command(*args, reading=reading, **others)

    made: Any = with_reading
    for option in (
        click.option(
            "--treat-as-embedding",
            is_flag=True,
            help="Accept a model that was not trained for embeddings, e.g. a reranker.",
        ),
        click.option(
            "--route",
            metavar="NAME",
            help="Side of a model with several, e.g. query or document; a bundle holds one.",
        ),
        click.option(
            "--prompt",
            "prompts",
            multiple=True,
            metavar="PURPOSE=TEXT",
            callback=_prompts,
            help="Text that the model expects before a query or a passage: `--prompt query='query: '`.",
        ),
        click.option(
            "--normalize/--no-normalize",
            default=None,
            help="Scale vectors to length 1. [default: as the model's files say]",
        ),
        click.option(
            "--pooling",
            type=click.Choice(get_args(PoolingMode)),
            metavar="MODE",
            help=f"Pooling, if the model's files state none or a wrong one: {', '.join(get_args(PoolingMode))}.",
        ),
    ):
        made = option(made)
    return made  # type: ignore[no-any-return]


def _prompts(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> list[tuple[str, str]]:
    pairs = [value.partition("=") for value in values]
    for purpose, equals, _ in pairs:
        if purpose not in PROMPTED or not equals:
            raise click.BadParameter(
                f"{purpose!r} is not PURPOSE=TEXT with one of the purposes {', '.join(PROMPTED)}"
            )
    return [(purpose, text) for purpose, _, text in pairs]


def _one_target(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> str | None:
    """The last of an option that is given twice would win without a word."""
    if len(values) > 1:
        raise UsageError(
            f"got two targets: {values[0]} and {values[1]}",
            hint="a bundle is for one target; `edgepack build` makes the bundles of a project",
        )
    return values[0] if values else None


def _target_of_this_machine(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> str:
    from edgepack.targets import target_of_this_machine

    value = _one_target(context, parameter, values)
    if value is not None:
        return value
    name = target_of_this_machine()
    # The tab key asks, too, and what it prints is in the way.
    if not context.resilient_parsing:
        click.echo(f"target: {name}, the default for this machine; `edgepack inspect` compares all", err=True)
    return name


TARGET = "Target to build for: a name from `edgepack targets`, or a .toml file."
_named: dict[str, Any] = {"metavar": "NAME", "shell_complete": names_of("target"), "multiple": True}
target_option = click.option(
    "-t",
    "--target",
    "target_name",
    callback=_target_of_this_machine,
    help=f"{TARGET}  [default: linux-x86-min, on arm64 linux-arm64-min]",
    **_named,
)
chosen_target_option = click.option(
    "-t",
    "--target",
    "target_name",
    callback=_one_target,
    help=f"{TARGET}  [default: chosen by the model, of those for this machine]",
    **_named,
)
"""For commands that know what the best target for a model is, by ``choose_target``."""
PLACES = "A folder, an .onnx file, hf:ORG/NAME[@REV], pypi:PACKAGE==VERSION, an https URL, or a name from `edgepack models`."
model_option = click.option(
    "-m",
    "--model",
    metavar="MODEL",
    shell_complete=complete_model,
    help=f"{PLACES} [default: all-MiniLM-L6-v2]",
)
"""For commands that find MODEL among what ``builder_flags`` leaves."""


def model_argument(command: Command) -> Command:
    """The model, by itself or with ``-m``: the argument ``model``."""

    @wraps(command)
    def with_model(*args: Any, word: str | None, model: str | None, **others: Any) -> Any:
        return command(*args, model=one_model(word, model), **others)

    made: Any = click.argument("word", metavar="[MODEL]", required=False, shell_complete=complete_model)(
        with_model
    )
    return model_option(made)  # type: ignore[no-any-return]


def one_model(*said: str | None) -> str | None:
    """The model that was named, if any; or ``click.UsageError`` for two."""
    named = [each for each in said if each is not None]
    if len(named) > 1:
        raise click.UsageError(f"Got two models: {named[0]} and {named[1]}")
    return named[0] if named else None


source_option = click.option(
    "-m",
    "--model",
    metavar="MODEL",
    shell_complete=complete_model,
    help=f"Where to find the bundle's model. {PLACES} [default: the model named in the manifest]",
)
set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a key of the target: `--set model.min_cosine=0.99`. A key without a table is one of the builder's "
    "options, which `bundle` and `fetch` also accept as flags.",
)
prices_option = file_option("--prices", "Price table (TOML) for download costs.", exists=True)
