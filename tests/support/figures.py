"""Figures of targets as pages show them: rows of what ``benchmarks/targets.py`` measured."""

from collections.abc import Iterator
from functools import cache

from edgepack.plugins.host import PluginHost, load_plugins
from edgepack.records.target import Target
from edgepack.suitability.measured import Made, measured

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
FIRST = (("linux", "x86_64"), ("linux", "aarch64"), ("web", "wasm32"))
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
    """Which target: a row each, and one for each other recipe that was measured; ``first``: those that most people ask for."""
    rows = [
        row for target, made in targets() if not first or is_first(target) for row in rows_of(target, made)
    ]
    return HEAD + "".join(rows)


def is_first(target: Target) -> bool:
    """Whether its device is a common one without a GPU."""
    return device_of(target) in FIRST and target.builder in ("linux", "engine", "static", "web")


def rows_of(target: Target, bundles: tuple[Made, ...]) -> Iterator[str]:
    device = DEVICES[device_of(target)]
    yield row(device, f"`{target.name}`", target.best_for, bundles[0] if bundles else None)
    for made in bundles[1:]:
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
