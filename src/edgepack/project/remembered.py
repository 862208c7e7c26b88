"""What is remembered of a project's bundles beside them: of what each was made, and what came out."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from edgepack import pipeline
from edgepack.bundles.archive import archive_of
from edgepack.bundles.manifest import digest, open_bundle
from edgepack.bundles.place import held_place
from edgepack.errors import BundleError
from edgepack.files.store import written_beside
from edgepack.plugins.host import PluginHost

REMEMBERED = ".edgepack-build.json"
"""In an output folder: bundle → what it was made of, and its digest."""


def memory_of(key: str, outcome: pipeline.Outcome) -> dict[str, Any]:
    """What is to be remembered of a bundle that was made."""
    return {
        "key": key,
        "digest": outcome.report.digest,
        "files": [
            archive_of(outcome.bundle.directory).name,
            *(each.file for each in outcome.report.packages),
        ],
        "delegates": outcome.bundle.manifest["made_by"].get("delegates", []),
    }


def is_up_to_date(folder: Path, key: str, host: PluginHost) -> bool:
    """Whether the bundle in ``folder`` was made of the same, and is as it was made."""
    known = _remembered(folder.parent).get(folder.name)
    if known is None or known["key"] != key or not same_delegates(known, host):
        return False
    if not all((folder.parent / name).is_file() for name in known["files"]):
        return False
    try:
        return bool(digest(open_bundle(folder)) == known["digest"])
    except BundleError:
        return False


def same_delegates(memory: Mapping[str, Any], host: PluginHost) -> bool:
    """Whom a builder delegates to is known when it has: whether these are still of the same versions."""
    return all(_made_by(host, each["builder"]) == each for each in memory["delegates"])


def _made_by(host: PluginHost, builder: str) -> dict[str, str]:
    """As a manifest names a delegate; nothing for one that is not there any more."""
    found = host.builders.get(builder)
    return {"builder": builder, "plugin": found.distribution, "version": found.version} if found else {}


def remember(folder: Path, memory: Mapping[str, Any]) -> None:
    """Several builds may be remembering bundles of one output folder."""
    file = folder.parent / REMEMBERED
    with held_place(file, waiting=lambda: None), written_beside(file) as temporary:
        known = {**_remembered(folder.parent), folder.name: dict(memory)}
        temporary.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def is_memory(value: object) -> bool:
    """Whether this is what ``memory_of`` returns."""
    return isinstance(value, dict) and {"key", "digest", "files", "delegates"} <= value.keys()


def _remembered(output: Path) -> dict[str, Any]:
    """Nothing where the file is not there or damaged: everything is made again then."""
    with suppress(OSError, ValueError):
        known = json.loads((output / REMEMBERED).read_text(encoding="utf-8"))
        if isinstance(known, dict) and all(map(is_memory, known.values())):
            return known
    return {}
