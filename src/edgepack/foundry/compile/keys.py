"""What a kernel archive is made from, and so what it is called."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgepack.foundry.compile import plan
from edgepack.foundry.compile.objects import identity_of
from edgepack.foundry.release import Release

SCHEMA = "2"
"""Changes when the same inputs are compiled otherwise than the data files say."""


def archive_inputs(
    release: Release, *, kind: str, features: Sequence[str], tree_key: str, toolchain: str
) -> dict[str, str]:
    """Inputs of an archive's key. ``toolchain`` is the identity, which ends with the platform."""
    settings = release.build_settings(toolchain.rpartition(", ")[2])
    variables = plan.cmake_variables(settings, kind, features)
    return {
        "schema": SCHEMA,
        "sources": tree_key,
        "toolchain": toolchain,
        "variables": repr(sorted(variables.items())),
    }


def planned_file(folder: Path, settings: Mapping[str, Any], *, room: str = "") -> Path:
    """Path of an archive's plan: one for each way of compiling single units, and for each ``Release.room``."""
    return folder / f"units-{identity_of(repr(settings['units']), *filter(None, [room]))[:16]}.json"
