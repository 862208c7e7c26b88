"""The cells of a project: each model for each target, by each recipe."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack.errors import UsageError
from edgepack.models.find.catalogue import load_catalogue
from edgepack.project.file import Project, Wanted
from edgepack.terminal_text import did_you_mean


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One model for one target, by one recipe."""

    wanted: Wanted
    """With one model and one recipe at most."""
    target: str

    @property
    def label(self) -> str:
        """For people, and for the command line: ``MODEL:TARGET``, and ``:RECIPE`` where a bundle of the project has several."""
        model = self.wanted.model or load_catalogue().default
        recipe = f":{self.wanted.recipe}" if self.wanted.recipes else ""
        return f"{Path(model).name}:{Path(self.target).name.removesuffix('.toml')}{recipe}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names on the command line: by its label, its model, its target or its recipe."""
        return (self.label, *self.label.split(":"))


def cells_of(project: Project, only: Sequence[str] = (), *, shard: str | None = None) -> list[Cell]:
    """All cells, or those whose label, model, target or recipe is in ``only``, and of these one ``shard``.

    Raises ``UsageError`` for what names none.
    """
    cells = [
        Cell(wanted=each, target=name)
        for wanted in project.bundles
        for each in wanted.each()
        for name in wanted.targets
    ]
    if only:
        names = {name: cell for cell in cells for name in cell.names}
        for name in only:
            if name not in names:
                listed = ", ".join(cell.label for cell in cells[:20]) + (", …" if len(cells) > 20 else "")
                raise UsageError(
                    f"{project.file} makes no {name}{did_you_mean(name, names)}", hint=f"it makes: {listed}"
                )
        cells = [cell for cell in cells if set(cell.names) & set(only)]
    return cells if shard is None else _shard(cells, shard)


def _shard(cells: Sequence[Cell], shard: str) -> list[Cell]:
    """The K-th of N parts of equal size. What takes longest is compiling for a target, so a part has few targets."""
    said = re.fullmatch(r"([1-9]\d{0,5})/([1-9]\d{0,5})", shard)
    number, of = (int(said[1]), int(said[2])) if said else (1, 0)
    if number > of:
        raise UsageError(
            f"--shard {shard} is no part of a whole", hint="--shard 3/8 is the third of eight parts"
        )
    ordered = sorted(range(len(cells)), key=lambda at: (cells[at].target, at))
    mine = set(ordered[len(cells) * (number - 1) // of : len(cells) * number // of])
    return [cell for at, cell in enumerate(cells) if at in mine]
