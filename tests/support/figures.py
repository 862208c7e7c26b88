"""Figures as pages show them: of targets, which ``benchmarks/targets.py`` measured, and tables that other commands recorded."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

from edgepack.plugins.host import PluginHost, load_plugins
from edgepack.records.target import Target
from edgepack.suitability.measured import Made, measured
from tests.support.golden import ROOT

DEVICES = {
    ("linux", "x86_64"): "Linux on x86-64",
    ("linux", "aarch64"): "Linux on arm64",
    ("linux", "armv7l"): "Linux on 32-bit ARM",
    ("linux", "riscv64"): "Linux on riscv64",
    ("windows", "x86_64"): "Windows on x86-64",
    ("web", "wasm32"): "browsers, Node",
    ("macos", "aarch64"): "macOS on arm64",
    ("macos", "x86_64"): "macOS on x86-64",
}
MEASURED = ROOT / "benchmarks/measured"
"""A table each, with the command, the machine and the date, as ``benchmarks/record.py`` writes them."""
FIRST = (("linux", "x86_64"), ("linux", "aarch64"), ("web", "wasm32"))
NAMED = re.compile(
    r"(?<=`)(?:go|crate|jar|aar|static-library)(?=`)|\b(?:(?:linux|windows|macos|web)-[\w-]+|int\d(?:-[a-z]+)?|fp\d+|half(?:-fused)?|npm|deb|wheel|single|fastembed|OpenVINO|CTranslate2)\b"
)
HEAD = "| device | `--target` | best for | download, MB | speed | cosine: mean, lowest |\n|---|---|---|---|---|---|\n"


@cache
def host() -> PluginHost:
    return load_plugins()


def targets() -> list[tuple[Target, tuple[Made, ...]]]:
    """Every target and its bundles, in the order of the devices."""
    found = [(host().target(name), measured(each.file)) for name, each in host().target_files.items()]
    order = list(DEVICES)
    return sorted(found, key=lambda each: (order.index(device_of(each[0])), each[0].name))


def device_of(target: Target) -> tuple[str, str]:
    return target.platform.os, target.platform.arch


def target_table(*, first: bool = False) -> str:
    """Which target: a row each, and one for each other recipe that was measured; ``first``: those that most people ask for, and of recipes
    those whose speed is known."""
    rows = [
        row
        for target, made in targets()
        if not first or is_first(target)
        for row in rows_of(target, made, timed=first)
    ]
    return HEAD + "".join(rows)


def is_first(target: Target) -> bool:
    """Whether its device is a common one without a GPU."""
    return device_of(target) in FIRST and target.builder in ("linux", "engine", "static", "web")


def rows_of(target: Target, bundles: tuple[Made, ...], *, timed: bool) -> Iterator[str]:
    device = DEVICES[device_of(target)]
    yield row(device, f"`{target.name}`", target.best_for, bundles[0] if bundles else None)
    for made in bundles[1:]:
        if made.times_as_fast is not None or not timed:
            yield row("", f"`{target.name} --recipe {made.recipe}`", "", made)


def row(device: str, name: str, best_for: str, made: Made | None) -> str:
    figures = ("", "", "") if made is None else (megabytes(made.download), speed(made), cosines(made))
    return f"| {' | '.join((device, name, best_for, *figures))} |\n".replace("|  |", "| |").replace(
        "|  |", "| |"
    )


def megabytes(size: int) -> str:
    return f"{size / 1e6:.2f}"


def speed(made: Made) -> str:
    return "" if made.times_as_fast is None else f"{made.times_as_fast:.1f}"


def cosines(made: Made) -> str:
    return f"{made.mean_cosine:.4f}, {made.min_cosine:.4f}"


def figures_of_targets() -> set[str]:
    """Everything that pages may say of a measured bundle: sizes in MB with one and two digits, or in bytes; cosines."""
    found: set[str] = set()
    for _, bundles in targets():
        for made in bundles:
            sizes = [made.archive, made.folder, made.download, *([made.memory] if made.memory else [])]
            sizes += made.packages.values()
            sizes += [size for part in made.parts.values() for size in part.values()]
            for size in sizes:
                found |= {
                    f"{size / 1e6:.0f} MB",
                    f"{size / 1e6:.1f} MB",
                    f"{size / 1e6:.2f} MB",
                    f"{size:,} bytes",
                }
            found |= {f"{made.mean_cosine:.4f}", f"{made.min_cosine:.4f}"}
    return found


def recorded(name: str) -> dict[str, Any]:
    """One file of ``MEASURED``."""
    found: dict[str, Any] = json.loads((MEASURED / f"{name}.json").read_text(encoding="utf-8"))
    return found


def recorded_table(name: str) -> str:
    """What was recorded, for a page: where from, and the table."""
    found = recorded(name)
    rows = [found["columns"], ["---"] * len(found["columns"]), *found["rows"]]
    lines = [f"| {' | '.join(row)} |".replace("|  |", "| |").replace("|  |", "| |") for row in rows]
    by = f"`{found['command']}`" if found["command"] else "By a script that is not kept"
    notes = "".join(f"\n\n{note}" for note in found.get("notes", ()))
    return f"\n{by}; {found['machine']}; {found['date']}:\n\n" + "\n".join(lines) + f"{notes}\n\n"


def bundle_table() -> str:
    """Folders and archives of every bundle that was measured."""
    rows = [
        f"| `{target.name}` | {made.recipe} | {megabytes(made.folder)} | {megabytes(made.archive)} | {cosines(made)} |"
        for target, bundles in targets()
        for made in bundles
    ]
    head = [
        "| `--target` | recipe | folder MB | archive MB | cosine: mean, lowest |",
        "|---|---|---|---|---|",
    ]
    return "\n".join(("", *head, *rows, "", ""))


def recorded_numbers() -> set[float]:
    """Every number that was recorded, in cells and in notes."""
    found = [recorded(file.stem) for file in MEASURED.glob("*.json")]
    return {
        number
        for each in found
        for row in (*each["rows"], each.get("notes", ()))
        for number in numbers_in(*row)
    }


def numbers_in(*texts: str) -> set[float]:
    found = (number for text in texts for number in re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?", text))
    return {float(number.replace(",", "")) for number in found}


@cache
def numbers_by_name() -> dict[str, set[float]]:
    """What was measured of each target, recipe, package form and peer: of rows and columns that name it."""
    found: dict[str, set[float]] = defaultdict(set)
    for target, bundles in targets():
        for made in bundles:
            sizes = [made.archive, made.folder, made.download, made.memory or 0, *made.packages.values()]
            sizes += [size for part in made.parts.values() for size in part.values()]
            of_it = {*map(float, sizes), made.mean_cosine, made.min_cosine, made.times_as_fast or 1.0}
            for name in (target.name, made.recipe):
                found[name] |= of_it
            for form, size in made.packages.items():
                found[form].add(size)
    for table in map(recorded, (file.stem for file in MEASURED.glob("*.json"))):
        for row in table["rows"]:
            for head, cell in zip(table["columns"], row, strict=True):
                for name in names_in(row[0]) | names_in(head):
                    found[name] |= numbers_in(cell)
    return found


def names_in(text: str) -> set[str]:
    """Targets, recipes, package forms and peers that a cell names."""
    return set(NAMED.findall(text))
