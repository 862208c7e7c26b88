"""What a builder takes: its own ``[options]``, with a suggestion for what it does not know, and its platforms."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal

from edgepack.errors import TargetError
from edgepack.records.target import ModelOptions, Platform, Target
from edgepack.terminal_text import did_you_mean
from edgepack.toml_schema import Malformed, check_value, inline_toml

OptionTable = Mapping[str, Any]
"""Option → default; the default's type is the option's type (``None``: a string or nothing), a tuple lists choices."""


def read_options(target: Target, known: OptionTable) -> dict[str, Any]:
    """The target's options over the defaults; a tuple in ``known`` lists the choices, the first is the default.

    Raises ``TargetError`` for an unknown option, or a value of the wrong kind.
    """
    given: dict[str, Any] = {}
    for name, value in target.options.items():
        if name not in known:
            raise TargetError(
                f"target {target.name}: unknown option {name}{did_you_mean(name, known)}",
                hint=_elsewhere(name, value)
                or f"options of builder {target.builder}: {', '.join(sorted(known)) or 'none'}",
            )
        given[name] = _checked(target, name, value, known[name])
    return {**defaults_of(known), **given}


def defaults_of(known: OptionTable) -> dict[str, Any]:
    return {name: value[0] if isinstance(value, tuple) else value for name, value in known.items()}


def _elsewhere(name: str, value: object) -> str:
    """A hint for a key of the target that was taken for an option."""
    tables = {"model": ModelOptions, "platform": Platform}
    places = [table for table, kind in tables.items() if name in {each.name for each in fields(kind)}]
    return "".join(f"{name} is a key of [{table}]: --set {table}.{name}={value}" for table in places[:1])


def require_platform(
    target: Target,
    *,
    os: str,
    architectures: Sequence[str],
    libc: str | None = None,
    hint: str | None = None,
) -> None:
    """Raise ``TargetError`` unless a builder's target is for an operating system and one of some processors.

    ``architectures`` are as ``platform.machine()`` says them, e.g. ``("x86_64", "aarch64")``; ``libc`` is the C library of the
    devices where the builder's files need one, ``glibc`` or ``musl``.
    """
    if target.platform.os != os or target.platform.arch not in architectures:
        raise TargetError(
            f"target {target.name}: builder {target.builder} makes bundles for {os} on {' and '.join(architectures)}, "
            f"not {target.platform.os} {target.platform.arch}",
            hint=hint,
        )
    said = target.platform.libc or "glibc"
    if libc is not None and said != libc:
        raise TargetError(
            f"target {target.name}: builder {target.builder} makes bundles for devices with {libc}, not with {said}",
            hint=hint,
        )


def _checked(target: Target, name: str, value: object, known: object) -> object:
    kind = Literal[known] if isinstance(known, tuple) else str if known is None else type(known)
    try:
        return check_value(kind, value, f"option {name}")
    except Malformed as error:
        # A choice's hint says the choices.
        usual = "unset" if known is None else inline_toml(known)
        raise TargetError(
            f"target {target.name}: {error}", hint=error.hint or f"by default it is {usual}"
        ) from error
