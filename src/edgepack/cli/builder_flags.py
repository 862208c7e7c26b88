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


def builder_flags(context: click.Context, known: OptionTable) -> tuple[str, ...]:
    """What a command did not know, as ``--set`` would say it; a list's flag may come more than once.

    Raises what click raises for flags that nobody knows, arguments, and values that are missing.
    """
    said: list[str] = []
    lists: dict[str, list[str]] = {}
    for flag, name, value in _pairs(context, known):
        if isinstance(known[name], list) and not value.startswith("["):
            lists.setdefault(name, []).append(value)
        elif name in lists:
            raise click.UsageError(f"{flag} is given as a list and by itself", ctx=context)
        else:
            said.append(f"{name}={value}")
    return (*said, *(f"{name}={json.dumps(values)}" for name, values in lists.items()))


def _pairs(context: click.Context, known: OptionTable) -> Iterator[tuple[str, str, str]]:
    """Flag, option and value."""
    words = list(context.args)
    while words:
        flag, equals, value = words.pop(0).partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        if not flag.startswith("-"):
            raise click.UsageError(f"Got unexpected extra argument ({flag})", ctx=context)
        if not flag.startswith("--") or name not in known:
            raise click.NoSuchOption(flag, possibilities=_like(flag, context, known), ctx=context)
        if not equals and known[name] is False:
            value = "true"
        elif not equals:
            if not words:
                raise click.BadOptionUsage(flag, f"Option {flag!r} requires an argument.", ctx=context)
            value = words.pop(0)
        yield flag, name, value


def _like(flag: str, context: click.Context, known: OptionTable) -> list[str]:
    own = [word for parameter in context.command.params for word in parameter.opts]
    return get_close_matches(flag, [*own, *(f"--{name.replace('_', '-')}" for name in known)])
