"""A builder's own options, written as flags: ``--some-option VALUE`` for ``--set some_option=VALUE``.

Which there are depends on the target, so the command line takes flags that it does not know and asks the builder.
"""

import json
from collections.abc import Iterator
from difflib import get_close_matches

import click

from edgepack.options import OptionTable

ANY_FLAG = {"ignore_unknown_options": True, "allow_extra_args": True}
"""``context_settings`` of a command that passes what it does not know to ``builder_flags``."""


def builder_flags(context: click.Context, known: OptionTable) -> tuple[tuple[str, ...], list[str]]:
    """Sort a command's unknown words: into flags, as ``--set`` would say them, and the rest.

    A list's flag may come more than once. Raises what click raises for flags that nobody knows, and values that are missing.
    """
    words: list[str] = []
    said: list[str] = []
    lists: dict[str, list[str]] = {}
    for flag, name, value in _pairs(context, known, words):
        if isinstance(known[name], list) and not value.startswith("["):
            lists.setdefault(name, []).append(value)
        elif name in lists:
            raise click.UsageError(f"{flag} is given as a list and by itself", ctx=context)
        else:
            said.append(f"{name}={value}")
    return (*said, *(f"{name}={json.dumps(values)}" for name, values in lists.items())), words


def _pairs(context: click.Context, known: OptionTable, words: list[str]) -> Iterator[tuple[str, str, str]]:
    """Flag, option and value; what is no flag goes to ``words``."""
    left = list(context.args)
    while left:
        word = left.pop(0)
        if not word.startswith("-"):
            words.append(word)
            continue
        flag, equals, value = word.partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        if not flag.startswith("--") or name not in known:
            raise click.NoSuchOption(flag, possibilities=_like(flag, context, known), ctx=context)
        if not equals and known[name] is False:
            value = "true"
        elif not equals:
            if not left:
                raise click.BadOptionUsage(flag, f"Option {flag!r} requires an argument.", ctx=context)
            value = left.pop(0)
        yield flag, name, value


def _like(flag: str, context: click.Context, known: OptionTable) -> list[str]:
    own = [word for parameter in context.command.params for word in parameter.opts]
    return get_close_matches(flag, [*own, *(f"--{name.replace('_', '-')}" for name in known)])
