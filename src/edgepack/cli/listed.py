"""What the listing commands show: targets, plugins, the cache. Rows of plain words, for tables and for JSON."""

import platform
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress

from edgepack.errors import EdgepackError, UsageError
from edgepack.files.store import Store, disk_errors, remove
from edgepack.plugins.commands import plugin_commands, refused_commands
from edgepack.plugins.host import PluginHost, PluginInfo, TargetFile
from edgepack.plugins.spec import Spec
from edgepack.records.target import Platform
from edgepack.suitability.measured import Made, measured
from edgepack.terminal_text import did_you_mean
from edgepack.toml_schema import inline_toml

FEW = 3
"""Things that a plugin brings whose names a table shows."""
Row = dict[str, str]

HERE = "this one"
"""The processor of this machine."""
BROKEN = "broken"
"""What a state begins with where something is wrong with a plugin or a target."""


def target_rows(host: PluginHost) -> list[Row]:
    """One row a target: ready, missing tools, or what is wrong with it; those for this machine's processor first, then by device."""
    rows = [_target_row(host, host.target_files[name]) for name in sorted(host.target_files)]
    return sorted(rows, key=lambda row: (row["processor"] != HERE, row["processor"]))


def _target_row(host: PluginHost, found: TargetFile) -> Row:
    row = dict.fromkeys(("target", "state", "processor", "best for", "archive MB", "speed", "summary"), "")
    row |= {"target": found.name, "state": "ready", "origin": found.origin}
    try:
        target = host.target(found.name)
        row |= {"summary": target.summary, "best for": target.best_for or target.summary}
        row |= {"processor": _processor(target.platform), **_figures(measured(found.file))}
        missing = host.builder_of(target).missing(target)
    except EdgepackError as error:
        return {**row, "state": f"{BROKEN}: {error.message}"}
    return {**row, "state": f"missing {', '.join(missing)}"} if missing else row


def _processor(device: Platform) -> str:
    """Whether what is made for a device's processor can be run here; empty where that is no question of a processor."""
    here = device.arch == platform.machine()
    if device.os == "macos":
        return "macos, not run here"
    if device.os != "linux":
        return f"{device.os}, emulated" if here else ""
    return HERE if here else f"{device.arch}, emulated"


def _figures(made: Sequence[Made]) -> Row:
    """Figures of the catalogue's model; of a page those of a first visit."""
    if not made:
        return {}
    speed = f"{made[0].times_as_fast:.1f}" if made[0].times_as_fast else ""
    return {"archive MB": f"{made[0].download / 1e6:.2f}", "speed": speed}


def model_rows() -> list[Row]:
    """One row a model of the catalogue; those without digests are held to their shape alone."""
    from edgepack.models.find.catalogue import load_catalogue

    catalogue = load_catalogue()
    return [
        {
            "model": entry.name,
            "MB": f"{entry.size / 1e6:.1f}" if entry.files else "",
            "license": entry.license or "",
            "pinned": "by SHA-256" if entry.files else "by shape",
        }
        for entry in catalogue.entries
    ]


def recipe_rows(host: PluginHost) -> list[Row]:
    """One row a recipe, edgepack's own first."""
    return [
        {
            "recipe": name,
            "summary": found.summary,
            "passes": ", ".join(
                str(step.get("pass") or f"those of {step['recipe']}") for step in found.make()
            ),
            "toml": "\n".join(f"{inline_toml(step)}," for step in found.make()),
            "origin": found.plugin,
        }
        for name, found in host.extensions("recipe").items()
    ]


def plugin_rows(host: PluginHost, *, commands: Collection[str], short: bool = False) -> list[Row]:
    """One row a plugin; ``commands`` are edgepack's own, whose names a plugin cannot have.

    ``short``: of a plugin that brings many things, how many of each axis.
    """
    refused = refused_commands(commands)
    return [_plugin_row(host, plugin, refused.get(plugin.package, ""), short) for plugin in host.plugins]


def _plugin_row(host: PluginHost, plugin: PluginInfo, refused: str, short: bool) -> Row:
    error = plugin.error or refused
    try:
        for spec in plugin.specs:
            _require_sound(host, spec)
    except EdgepackError as wrong:
        error = wrong.message
    state = f"disabled by {plugin.disabled}" if plugin.disabled else "ready"
    state = f"deprecated: {plugin.ending}" if plugin.ending else state
    commands = [name for name, point in plugin_commands().items() if point.package == plugin.package]
    return {
        "plugin": plugin.name,
        "state": f"{BROKEN}: {error}" if error else state,
        "distribution": f"{plugin.distribution} {plugin.version}",
        "api": ", ".join(sorted({str(spec.api) for spec in plugin.specs})),
        "brings": _counted(plugin.specs) if short else _named(plugin.specs),
        "commands": ", ".join(commands),
        "targets": ", ".join(plugin.targets),
    }


def _require_sound(host: PluginHost, spec: Spec) -> None:
    """Ask for what is quick to ask for: a builder's options, and platforms, which whoever looks for one makes all of."""
    if spec.axis == "builder":
        host.builders[spec.name].options()
    if spec.axis == "platform":
        from edgepack.foundry.platforms import made_platform

        made_platform(host.extensions("platform")[spec.name])


def _named(specs: Sequence[Spec]) -> str:
    """E.g. ``builder web, platform web``."""
    return ", ".join(f"{spec.axis} {spec.name}" for spec in specs)


def _counted(specs: Sequence[Spec]) -> str:
    """Names, or of many ``pass: 13, recipe: 14``."""
    if len(specs) <= FEW:
        return _named(specs)
    return ", ".join(f"{axis}: {count}" for axis, count in Counter(spec.axis for spec in specs).items())


def cache_sizes(store: Store) -> dict[str, int]:
    """Bytes by kind of entry, largest first."""
    sizes = {
        kind: sum(
            file.lstat().st_size
            for entry in store.entries(kind)
            for file in (entry, *entry.rglob("*"))
            if file.is_file() and not file.is_symlink()
        )
        for kind in store.kinds()
    }
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def clean_cache(store: Store, kinds: Sequence[str]) -> int:
    """Remove the entries of these kinds (of all, when none is named) and return the bytes freed."""
    sizes = cache_sizes(store)
    for kind in kinds:
        if kind not in sizes:
            raise UsageError(
                f"the cache holds no {kind}{did_you_mean(kind, sizes)}",
                hint=f"it holds: {', '.join(sizes) or 'nothing'}",
            )
    with disk_errors(store.root):
        for kind in kinds or sizes:
            for entry in store.entries(kind):
                remove(entry)
            with suppress(OSError):  # where something else is in it
                (store.root / kind).rmdir()
    return sum(size for kind, size in sizes.items() if not kinds or kind in kinds)
