"""Target files: TOML in, a checked ``Target`` out."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgepack.errors import TargetError, UsageError
from edgepack.records.target import ModelOptions, Pass, Platform, Target

if TYPE_CHECKING:
    from importlib.abc import Traversable

SCHEMA = 1
GATES = ("off", "quick", "full")
FORMATS = ("onnx", "ort", "ort-runtime-opt")
LIMITS = (
    *("min_cosine", "min_agreement", "min_p1_cosine", "min_worst_cosine"),
    *("min_top10", "min_batch_cosine", "min_processor_cosine", "max_retrieval_loss"),
)
"""The limits of the gate, as a target and a manifest name them."""
KNOWN_KEYS: Mapping[str, tuple[str, ...]] = {
    "": ("schema", "summary", "builder", "platform", "model", "budget", "options"),
    "platform": ("os", "arch", "glibc", "isa"),
    "model": ("recipe", "format", "calibration", "gate", *LIMITS),
    "budget": ("download",),
}
SIZE_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


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
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise TargetError(
            f"target {name} cannot be read: {error}",
            hint="a target is a TOML file in UTF-8; see README, targets",
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise TargetError(f"target {name} is not valid TOML: {error}", hint=f"see {origin}") from error
    for override in overrides:
        _override(table, override)
    return parse_target(name, table, origin=origin)


def parse_target(name: str, table: Mapping[str, Any], *, origin: str) -> Target:
    """A target from its TOML table; an unknown key or a value of the wrong kind is a ``TargetError``."""
    _check_keys(name, "", table)
    if table.get("schema") != SCHEMA:
        raise TargetError(
            f"target {name} has schema {table.get('schema')!r}; this edgepack reads schema {SCHEMA}",
            hint=f"put `schema = {SCHEMA}` at the top of {origin}",
        )
    sections = {key: _section(name, table, key) for key in ("platform", "model", "budget", "options")}
    return Target(
        name=name,
        summary=_value(name, table, "summary", str, ""),
        builder=_value(name, table, "builder", str),
        platform=_platform(name, sections["platform"]),
        model=_model_options(name, sections["model"]),
        download_budget=_budget(name, sections["budget"]),
        options=sections["options"],
        origin=origin,
    )


def parse_size(text: str) -> int:
    """Bytes of ``"30 MB"`` (10^6) or ``"30 MiB"`` (2^20); raises ``ValueError``."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*", text)
    if match is None or match[2].lower() not in SIZE_UNITS:
        raise ValueError(f"{text!r} is not a size such as 30 MB or 12.5 MiB")
    return round(float(match[1]) * SIZE_UNITS[match[2].lower()])


def read_pass(entry: Mapping[str, Any]) -> Pass:
    """A step of a recipe as TOML has it, e.g. ``{ pass = "int4", layers = ["encoder.*"] }``; nothing is checked."""
    return Pass(
        name=str(entry["pass"]),
        parameters={key: setting for key, setting in entry.items() if key != "pass"},
    )


def nearest(word: str, known: Iterable[str]) -> str:
    """`` (did you mean X?)`` when something known is near, else nothing."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean {near[0]}?)" if near else ""


def _platform(name: str, section: Mapping[str, Any]) -> Platform:
    glibc = _value(name, section, "glibc", str, None, where="platform.")
    if glibc is not None and not re.fullmatch(r"\d+\.\d+", glibc):
        raise TargetError(
            f"target {name}: platform.glibc is {glibc!r}, expected a version",
            hint='e.g. glibc = "2.28", the oldest C library of the device',
        )
    return Platform(
        os=_value(name, section, "os", str, where="platform."),
        arch=_value(name, section, "arch", str, where="platform."),
        glibc=glibc,
        isa=tuple(_value(name, section, "isa", list, [], where="platform.")),
    )


def _model_options(name: str, section: Mapping[str, Any]) -> ModelOptions:
    defaults = ModelOptions()
    model_format = section.get("format", defaults.format)
    if model_format not in FORMATS:
        raise TargetError(
            f"target {name}: model.format is {model_format!r}{nearest(str(model_format), FORMATS)}",
            hint=f"one of: {', '.join(FORMATS)}",
        )
    gate = section.get("gate", defaults.gate)
    if gate not in GATES:
        raise TargetError(
            f"target {name}: model.gate is {gate!r}{nearest(str(gate), GATES)}",
            hint=f"one of: {', '.join(GATES)}",
        )
    return ModelOptions(
        recipe=_recipe(name, section.get("recipe", defaults.recipe)),
        format=model_format,
        calibration=_path(name, section, "calibration"),
        min_cosine=_share(name, section, "min_cosine"),
        min_agreement=_share(name, section, "min_agreement"),
        gate=gate,
        min_p1_cosine=_share(name, section, "min_p1_cosine"),
        min_worst_cosine=_share(name, section, "min_worst_cosine"),
        min_top10=_share(name, section, "min_top10"),
        min_batch_cosine=_share(name, section, "min_batch_cosine"),
        min_processor_cosine=_share(name, section, "min_processor_cosine"),
        max_retrieval_loss=_share(name, section, "max_retrieval_loss", 1.0),
    )


def _recipe(name: str, value: object) -> str | tuple[Pass, ...]:
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not all(isinstance(entry, dict) and "pass" in entry for entry in value):
        raise TargetError(
            f"target {name}: model.recipe is neither a recipe's name nor a list of passes",
            hint='e.g. recipe = "int8", or recipe = [{ pass = "fuse" }, { pass = "int8-dynamic" }]',
        )
    return tuple(map(read_pass, value))


def _path(name: str, section: Mapping[str, Any], key: str) -> Path | None:
    value = _value(name, section, key, str, None, where="model.")
    return Path(value).expanduser() if value else None


def _share(name: str, section: Mapping[str, Any], key: str, default: float = 0.0) -> float:
    value = section.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
        raise TargetError(
            f"target {name}: model.{key} is {value!r}, expected a number from 0 to 1",
            hint="it is a share: 1 asks for vectors equal to the full-precision model's, 0 asks for nothing",
        )
    return float(value)


def _budget(name: str, section: Mapping[str, Any]) -> int | None:
    value = section.get("download")
    if value is None:
        return None
    try:
        return value if isinstance(value, int) and not isinstance(value, bool) else parse_size(str(value))
    except ValueError as error:
        raise TargetError(
            f"target {name}: budget.download: {error}", hint='e.g. download = "30 MB"'
        ) from error


def _section(name: str, table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    section = _value(name, table, key, dict, {})
    if key in KNOWN_KEYS:
        _check_keys(name, key, section)
    return dict(section)


def _check_keys(name: str, section: str, table: Mapping[str, Any]) -> None:
    for key in table:
        if key not in KNOWN_KEYS[section]:
            where = f"[{section}] " if section else ""
            raise TargetError(
                f"target {name}: unknown key {where}{key}{nearest(key, KNOWN_KEYS[section])}",
                hint=f"known here: {', '.join(KNOWN_KEYS[section])}",
            )


_REQUIRED = object()
KIND_NAMES: Mapping[type, str] = {str: "a string", list: "a list", dict: "a table"}


def _value(
    name: str, table: Mapping[str, Any], key: str, kind: type, default: Any = _REQUIRED, *, where: str = ""
) -> Any:
    if key not in table:
        if default is _REQUIRED:
            raise TargetError(
                f"target {name}: {where}{key} is missing", hint="README, targets, shows a whole target file"
            )
        return default
    if not isinstance(table[key], kind):
        raise TargetError(
            f"target {name}: {where}{key} is {table[key]!r}, expected {KIND_NAMES[kind]}",
            hint="README, targets, shows a whole target file",
        )
    return table[key]


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
                f"--set {override}: {section} is not a section", hint="e.g. --set model.recipe=fp32"
            )
    table[key] = _toml_value(text.strip())


def _toml_value(text: str) -> Any:
    """What TOML makes of the text; a word that is no TOML value is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
