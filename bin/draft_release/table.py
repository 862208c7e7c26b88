"""A drafted room, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bin.draft_release.places import Place
from bin.draft_release.steps import steps
from bin.draft_release.survey import Survey
from rich.console import Group
from rich.table import Table
from rich.text import Text

from edgepack.tables import State, add_row, blocks, table

if TYPE_CHECKING:
    from bin.draft_release.first_build import Drafted


def render_draft(made: Drafted) -> Group:
    """Patches, what else differs, what comes next, and the first build."""
    found = made.survey
    return blocks(
        Text(f"ONNX Runtime {found.version}, drafted like {found.like}"),
        _patches(found),
        Text("\n".join(_differences(found))),
        Text("\n".join(f"{number}. {step.title}" for number, step in enumerate(steps(found), 1))),
        Text(f"first build: {made.build.said}"),
    )


def _patches(found: Survey) -> Table:
    made = table("patch", "gives", State("state"), "where")
    for place in found.places:
        add_row(made, place.patch, place.gives or "needed", _state(place), _where(place))
    return made


def _state(place: Place) -> str:
    return f"{'✓' if place.fits else '✗'} {place.state}"


def _where(place: Place) -> str:
    if place.fits:
        return place.now
    lost = next(iter(place.missing), None)
    if lost is None:
        return place.file
    now = lost.elsewhere or [f"{near.file}:{near.line} is near" for near in lost.nearest[:1]]
    return f"{place.file} has no {lost.was}" + "".join(f"; {where}" for where in now)


def _differences(found: Survey) -> list[str]:
    kernels, files = found.kernels, found.files
    changes = f"{len(kernels.new)} operators new, {len(kernels.gone)} gone, {len(kernels.changed)} changed"
    return [
        f"kernels: {kernels.now} registered ({kernels.known} in {found.like}); {changes}",
        f"sources: of {files.plan} in the plan {files.same} are the same, {len(files.gone)} gone; {len(files.new)} new beside them",
        f"libraries: {len(found.parts)} of other versions",
    ]
