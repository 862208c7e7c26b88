"""What the listing commands show: targets, plugins, the cache. Rows of plain words, for tables and for JSON."""

import shutil
from collections.abc import Sequence

from edgepack.errors import EdgepackError, UsageError
from edgepack.files.store import Store, disk_errors
from edgepack.plugins.host import PluginHost, TargetFile
from edgepack.words import did_you_mean

Row = dict[str, str]


def target_rows(host: PluginHost) -> list[Row]:
    """One row a target: ready, missing tools, or what is wrong with it."""
    return [_target_row(host, host.target_files[name]) for name in sorted(host.target_files)]


def _target_row(host: PluginHost, found: TargetFile) -> Row:
    row = {"target": found.name, "state": "ready", "summary": "", "origin": found.origin}
    try:
        target = host.target(found.name)
        row["summary"] = target.summary
        builder = host.builder_of(target)
    except EdgepackError as error:
        return {**row, "state": f"broken: {error.message}"}
    try:
        missing = [str(name) for name in builder.spec.missing(target)]
    except (Exception, SystemExit) as error:  # a plugin's code, which must not stop the listing
        return {**row, "state": f"broken: {type(error).__name__}: {error}"}
    return {**row, "state": f"missing {', '.join(missing)}"} if missing else row


def plugin_rows(host: PluginHost) -> list[Row]:
    """One row a plugin."""
    return [
        {
            "plugin": plugin.name,
            "state": f"broken: {plugin.error}" if plugin.error else "ready",
            "distribution": f"{plugin.distribution} {plugin.version}",
            "builders": ", ".join(plugin.builders),
            "targets": ", ".join(plugin.targets),
        }
        for plugin in host.plugins
    ]


def cache_sizes(store: Store) -> dict[str, int]:
    """Bytes by kind of entry, largest first."""
    kinds = [folder for folder in store.root.glob("*") if folder.is_dir() and folder.name != "locks"]
    sizes = {
        kind.name: sum(
            file.lstat().st_size for file in kind.rglob("*") if file.is_file() and not file.is_symlink()
        )
        for kind in kinds
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
            shutil.rmtree(store.root / kind)
    return sum(size for kind, size in sizes.items() if not kinds or kind in kinds)
