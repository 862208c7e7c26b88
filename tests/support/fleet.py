"""Work for workers that some of them do not survive, and a store in a dictionary."""

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

from edgepack.project.file import Wanted
from edgepack.project.jobs import Job, Result
from edgepack.project.matrix import Cell


def orders_of(*names: str, claims: Path) -> list[Job]:
    """One for each name, which is its model."""
    return [
        Job(
            cell=Cell(wanted=Wanted(targets=("t",), model=name), target="t"),
            number=number,
            edition="",
            claims=str(claims),
        )
        for number, name in enumerate(names)
    ]


def survive(order: Job) -> Result:
    """What a cell is made with in these tests: ``once`` kills its first worker, ``always`` each."""
    name = str(order.cell.wanted.model)
    marker = Path(str(order.claims)) / name
    if name == "always" or (name == "once" and not marker.exists()):
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return Result(label=order.cell.label, state="made", seconds=0.0)


@dataclass
class Shelf:
    """A ``BlobStore``."""

    files: dict[str, bytes] = field(default_factory=dict)
    asked: int = 0
    down: bool = False

    def get(self, name: str, destination: Path) -> bool:
        self._answer()
        if name not in self.files:
            return False
        destination.write_bytes(self.files[name])
        return True

    def put(self, name: str, source: Path) -> None:
        self._answer()
        self.files[name] = source.read_bytes()

    def has(self, name: str) -> bool:
        self._answer()
        return name in self.files

    def _answer(self) -> None:
        self.asked += 1
        if self.down:
            raise TimeoutError("nobody is there")
