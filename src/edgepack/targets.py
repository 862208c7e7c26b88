"""Target files: TOML in, a checked ``Target`` out."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from edgepack.errors import TargetError, UsageError, reason_of
from edgepack.records.figures import LIMITS
from edgepack.records.target import PROMPTED, ModelOptions, Pass, Platform, Reading, Target
from edgepack.toml_schema import (
    LARGEST,
    Malformed,
    Written,
    check_value,
    inline_toml,
    keys_of,
    load_toml,
    parse_toml,
    read_table,
)

SCHEMA = 1
EXTRA = "x-"
"""What the name of a plugin's own table begins with."""
MIN_COSINE = 0.985
"""What a target asks of its vectors that does not say ``min_cosine``: nothing passes because nobody set a limit."""
PROCESSOR_NAMES = {
    **dict.fromkeys(("x86-64", "amd64", "x64"), "x86_64"),
    "arm64": "aarch64",
    **dict.fromkeys(("armv7", "armhf", "armv7hf"), "armv7l"),
}
"""What processors are called elsewhere (Debian, Docker, Go) → as ``platform.machine()`` says it, and edgepack everywhere."""
SIZE_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


@dataclass(frozen=True, kw_only=True)
class DefaultTarget:
    """A target that is built where none is named, if it takes the model."""

    target: str
    recipe: str = ""
    """Instead of the target's own."""
    why: str


def _defaults(processor: str) -> tuple[DefaultTarget, ...]:
    return (
        DefaultTarget(target=f"linux-{processor}-static", why="the model is a table"),
        DefaultTarget(
            target=f"linux-{processor}-fast",
            recipe="int8-download",
            why="edgepack's own kernels take this model",
        ),
        DefaultTarget(target=f"linux-{processor}-min", why="ONNX Runtime, reduced to this model"),
    )


DEFAULTS = {"x86_64": _defaults("x86"), "aarch64": _defaults("arm64")}
"""By machine, the better first; the last takes every transformer."""


@dataclass(frozen=True, kw_only=True)
class _Budget:
    download: int | None = None
    memory: int | None = None
    threads: int = 4
    max_length: int | None = None


@dataclass(frozen=True, kw_only=True)
class _Package:
    formats: tuple[str, ...] = ()
    version: str = "0.1.0"


@dataclass(frozen=True, kw_only=True)
class _Runner:
    module: Path | None = None


@dataclass(frozen=True, kw_only=True)
class _File:
    """A target file, key by key."""

    schema: int
    builder: str
    platform: Platform
    summary: str = ""
    best_for: str = ""
    model: ModelOptions = field(default_factory=ModelOptions)
    budget: _Budget = field(default_factory=_Budget)
    package: _Package = field(default_factory=_Package)
    runner: _Runner = field(default_factory=_Runner)
    options: Mapping[str, Any] = field(default_factory=dict)


KNOWN_KEYS: Mapping[str, tuple[str, ...]] = {
    "": keys_of(_File),
    "platform": keys_of(Platform),
    "model": keys_of(ModelOptions),
    "budget": keys_of(_Budget),
    "package": keys_of(_Package),
    "runner": keys_of(_Runner),
}


def target_of_this_machine() -> str:
    """The name of the target that takes most models, for the machine that this runs on. Raises as ``defaults_of_this_machine``."""
    return defaults_of_this_machine()[-1].target


def defaults_of_this_machine() -> tuple[DefaultTarget, ...]:
    """Targets that are built where none is named, the better first. Raises ``UsageError`` where there is nothing."""
    import platform

    if platform.system() != "Linux" or platform.machine() not in DEFAULTS:
        raise UsageError(
            f"no target builds for {platform.system()} on {platform.machine()}; choose one with -t",
            hint="`edgepack targets` lists them",
        )
    return DEFAULTS[platform.machine()]


def device_here() -> str:
    """System and processor of this machine, as ``device_of`` says those of a target."""
    import platform

    return f"{platform.system().lower()} {platform.machine()}"


def device_of(device: Platform) -> str:
    """E.g. ``linux x86_64``."""
    return f"{device.os} {device.arch}"


def built_in_targets() -> list[Traversable]:
    """The target files that edgepack brings."""
    return sorted(
        (file for file in files("edgepack.builtin_targets").iterdir() if file.name.endswith(".toml")),
        key=lambda file: file.name,
    )


def read_target(file: Traversable | Path, *, origin: str, overrides: Iterable[str] = ()) -> Target:
    """A target from its file, with ``KEY=VALUE`` overrides applied; raises ``TargetError``."""
    name = file.name.removesuffix(".toml")
    try:
        table = load_toml(file)
    except FileNotFoundError as error:
        raise TargetError(
            f"there is no target file {file}",
            hint="name a .toml file, or a target by its name alone: `edgepack targets` lists them",
        ) from error
    except OSError as error:
        raise TargetError(
            f"target {name} cannot be read: {reason_of(error)}",
            hint="a target is a TOML file in UTF-8; see docs/targets.md for all keys",
        ) from error
    except Malformed as error:
        raise TargetError(f"target {name}: {error}", hint=f"see {origin}") from error
    settings = tuple(overrides)
    named = {override.partition("=")[0].strip() for override in settings}
    if "model.recipe" in named and isinstance(model := table.get("model"), dict):
        # The file's own exception does not hold against what was asked for.
        model.pop("score_recipe", None)
    for override in settings:
        _override(table, override)
    return replace(parse_target(name, table, origin=origin), settings=settings)


def parse_target(name: str, table: Mapping[str, Any], *, origin: str) -> Target:
    """A target from its TOML table; an unknown key or a value of the wrong kind is a ``TargetError``."""
    if table.get("schema") != SCHEMA:
        raise TargetError(
            f"target {name} has schema {table.get('schema')!r}; this edgepack reads schema {SCHEMA}",
            hint=f"put `schema = {SCHEMA}` at the top of {origin}",
        )
    try:
        own = {key: value for key, value in table.items() if not key.startswith(EXTRA)}
        extra = {
            key.removeprefix(EXTRA): _extra(key, value) for key, value in table.items() if key not in own
        }
        file = read_table(_File, own, how=_HOW)
    except Malformed as error:
        raise TargetError(
            f"target {name}: {error}", hint=error.hint or "see docs/targets.md for the format"
        ) from error
    if file.platform.libc == "musl" and file.platform.glibc:
        raise TargetError(
            f"target {name}: platform.glibc is for devices with glibc, not with musl",
            hint="omit platform.glibc",
        )
    return Target(
        name=name,
        summary=file.summary,
        best_for=file.best_for,
        builder=file.builder,
        platform=file.platform,
        model=file.model
        if "min_cosine" in table.get("model", {})
        else replace(file.model, min_cosine=MIN_COSINE),
        download_budget=file.budget.download,
        memory_budget=file.budget.memory,
        memory_threads=file.budget.threads,
        memory_length=file.budget.max_length,
        packages=file.package.formats,
        version=file.package.version,
        module=file.runner.module,
        options=file.options,
        extra=extra,
        origin=origin,
    )


def overrides_of(
    settings: Mapping[str, Any] | None = None,
    *,
    recipe: str | None,
    gate: str | None,
    packages: Sequence[str],
) -> list[str]:
    """Settings of a target as ``--set`` has them; those that have an option or a key of their own go before."""
    own = {"model.recipe": recipe, "model.gate": gate, "package.formats": list(packages)}
    wanted = {**(settings or {}), **{key: value for key, value in own.items() if value}}
    return [f"{key}={inline_toml(value)}" for key, value in wanted.items()]


def with_reading(target: Target, reading: Reading) -> Target:
    """The target with what is said of the model besides."""
    return replace(target, model=replace(target.model, **reading.over(target.model.reading).said))


def require_reading(reading: Reading) -> None:
    """Raise ``UsageError`` for settings of a model that a target could not have, as Python's callers may give them."""
    try:
        read_table(Reading, vars(reading), how={"prompts": _prompts})
    except Malformed as error:
        raise UsageError(str(error), hint=error.hint) from error


def parse_size(text: str) -> int:
    """Bytes of ``"30 MB"`` (10^6) or ``"30 MiB"`` (2^20); raises ``ValueError``."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*", text)
    if match is None or match[2].lower() not in SIZE_UNITS:
        raise ValueError(f"{text!r} is not a size such as 30 MB or 12.5 MiB")
    size = float(match[1]) * SIZE_UNITS[match[2].lower()]
    if size > LARGEST:
        raise ValueError(f"{text[:40]!r} is more than any disk has")
    return round(size)


def read_pass(entry: Mapping[str, Any]) -> Pass:
    """A step of a recipe as TOML has it, e.g. ``{ pass = "int4", layers = ["encoder.*"] }`` or ``{ recipe = "int8" }``; nothing is checked."""
    if "pass" not in entry:
        return Pass(recipe=str(entry["recipe"]))
    return Pass(
        name=str(entry["pass"]), parameters={key: setting for key, setting in entry.items() if key != "pass"}
    )


def is_pass(entry: object) -> bool:
    """Whether ``read_pass`` reads it."""
    return isinstance(entry, Mapping) and ("pass" in entry or entry.keys() == {"recipe"})


def _extra(key: str, value: object) -> Mapping[str, Any]:
    table: Mapping[str, Any] = check_value(Mapping[str, Any], value, key)
    try:
        json.dumps(table, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Malformed(
            f"[{key}] holds what no manifest can: {error}",
            hint="a plugin's table holds strings, numbers, true, false, lists and tables",
        ) from error
    return table


def processor_name(name: str) -> str:
    """The one name of a processor, as ``platform.machine()`` says it, of whatever it is called."""
    return PROCESSOR_NAMES.get(name.lower(), name)


def _processor(value: object) -> str:
    return processor_name(check_value(str, value))


def _version(value: object) -> str:
    if not re.fullmatch(r"\d+\.\d+", text := check_value(str, value)):
        raise Malformed(
            f"is {text!r}, expected a version", hint='e.g. glibc = "2.28", the oldest C library of the device'
        )
    return str(text)


def _recipe(value: object) -> str | tuple[Pass, ...]:
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not all(map(is_pass, value)):
        raise Malformed(
            "is neither a recipe's name nor a list of passes",
            hint='e.g. recipe = "int8", or recipe = [{ pass = "fuse" }, { pass = "int8-dynamic" }]',
        )
    return tuple(map(read_pass, value))


def _share(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
        raise Malformed(
            f"is {value!r}, expected a number from 0 to 1",
            hint="it is a share: 1 asks for vectors equal to the full-precision model's, 0 asks for nothing",
        )
    return float(value)


def read_limits(**said: object) -> dict[str, Any]:
    """Limits of the gate and its level that are said beside a target, read as a target's; what is ``None`` is not said. Raises ``UsageError``."""
    asked = {key: value for key, value in said.items() if value is not None}
    try:
        read = read_table(ModelOptions, asked, how=dict.fromkeys(LIMITS, _share))
    except Malformed as error:
        raise UsageError(str(error), hint=error.hint) from error
    return {key: getattr(read, key) for key in asked}


def _size(key: str, example: str) -> Callable[[object], int]:
    def read(value: object) -> int:
        try:
            return parse_size(str(value))
        except ValueError as error:
            unit = f'; write the unit: "{value} MB"' if re.fullmatch(r"[\d.]+", str(value)) else ""
            raise Malformed(
                f"is {value!r}, which is not a size", hint=f'e.g. {key} = "{example}"{unit}'
            ) from error

    return read


def _count(example: str) -> Callable[[object], int]:
    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise Malformed(f"is {value!r}, expected a number from 1", hint=f"e.g. {example}")
        return value

    return read


def _prompts(value: object) -> Mapping[str, str]:
    prompts: Mapping[str, str] = check_value(Mapping[str, str], value)
    if odd := [purpose for purpose in prompts if purpose not in PROMPTED]:
        raise Malformed(f"names {odd[0]}", hint=f"a bundle knows prompts for {' and '.join(PROMPTED)}")
    return prompts


def _file_name(value: object) -> Path | None:
    try:
        return Path(text).expanduser() if (text := check_value(str, value)) else None
    except RuntimeError as error:  # ~NAME of nobody
        raise Malformed(f"is {value!r}: {error}") from error


_HOW = {
    "platform.arch": _processor,
    "platform.glibc": _version,
    "model.recipe": _recipe,
    "model.score_recipe": _recipe,
    "model.calibration": _file_name,
    "model.prompts": _prompts,
    "runner.module": _file_name,
    "budget.download": _size("download", "30 MB"),
    "budget.memory": _size("memory", "128 MB"),
    "budget.threads": _count("threads = 2"),
    "budget.max_length": _count("max_length = 128"),
    **{f"model.{limit}": _share for limit in LIMITS},
}


def _override(table: dict[str, Any], override: str) -> None:
    """Apply ``section.key=value`` (or ``key=value`` for the builder's own options)."""
    path, equals, text = override.partition("=")
    words = path.strip().split(".")
    if not equals or not all(words):
        raise UsageError(
            f"--set {override}: expected KEY=VALUE", hint="e.g. --set model.recipe=fp32 or --set glibc=2.31"
        )
    *sections, key = words if len(words) > 1 else ("options", words[0])
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            raise UsageError(
                f"--set {override}: {section} is not a table", hint="e.g. --set model.recipe=fp32"
            )
    table[key] = _toml_value(text.strip())


def _toml_value(text: str) -> Any:
    """Value of the text in TOML; a word that is no TOML value is a string.

    A shell takes the quotes away of ``--set platform.glibc="2.35"``: a number is a string where one is expected.
    """
    try:
        return parse_toml(f"value = {text}", parse_float=Written)["value"]
    except Malformed:
        return text
