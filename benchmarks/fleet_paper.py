"""A thousand cells on fifty machines, on paper: how long a build takes, by who gives out the cells and what the machines have.

    .venv/bin/python benchmarks/fleet_paper.py

Nothing is built: machines are numbers. What is assumed is in ``Assumed``; seconds of a cell, and of what it needs, are those of machines with
two cores. A cell needs its target's kernel archive on its machine, compiled there or taken from a wheel, and its model prepared, which the
store has once somebody has done it. A machine that dies loses the cell that it makes, and does not come back.
"""

import heapq
import random
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Assumed:
    """Times in seconds."""

    models: int = 100
    targets: int = 10
    machines: int = 50
    cell: float = 28.0
    """Median of linking, verifying and packing: 1,000 take 8 h on two cores."""
    spread: float = 0.4
    """Of the logarithm of a cell's time: large models take longer."""
    prepare: float = 15.0
    """Of a model, once."""
    archive: float = 540.0
    """Compiling a target's kernel archive on a machine; with a wheel, importing it."""
    overhead: float = 1.0
    """Of a cell: keys, the store, the scheduler."""
    deaths: int = 0
    """Machines that die, at random times of the first half of the build."""
    seed: int = 20


def cells_of(assumed: Assumed) -> list[tuple[int, int, float]]:
    """Model, target, seconds; in the project's order."""
    chance = random.Random(assumed.seed)
    size = [chance.lognormvariate(0.0, assumed.spread) for _ in range(assumed.models)]
    return [(m, t, assumed.cell * size[m]) for m in range(assumed.models) for t in range(assumed.targets)]


def seconds_of(assumed: Assumed, *, shards: bool) -> float:
    """Until the last cell is there."""
    cells = cells_of(assumed)
    ordered = sorted(cells, key=lambda cell: cell[1])
    count, machines = len(cells), assumed.machines
    queues = [ordered[count * k // machines : count * (k + 1) // machines] for k in range(machines)]
    waiting = list(cells)
    chance = random.Random(assumed.seed + 1)
    about = sum(cell[2] for cell in cells) / machines
    dies = dict(
        zip(
            chance.sample(range(machines), assumed.deaths),
            (chance.uniform(0, about / 2) for _ in range(machines)),
            strict=False,
        )
    )
    archives: list[set[int]] = [set() for _ in range(machines)]
    prepared: dict[int, float] = {}
    free = [(0.0, machine) for machine in range(machines)]
    end = 0.0
    while free:
        now, machine = heapq.heappop(free)
        queue = queues[machine] if shards else waiting
        if not queue:
            continue
        model, target, seconds = queue.pop(0)
        takes = assumed.overhead + seconds
        if target not in archives[machine]:
            takes += assumed.archive
        if prepared.get(model, float("inf")) > now:
            takes += assumed.prepare
        if now + takes > dies.get(machine, float("inf")):
            # A job of a CI matrix is started again by its system on another machine; Dask gives the cell to another.
            queue.insert(0, (model, target, seconds))
            if shards:
                archives[machine], dies = set(), {key: value for key, value in dies.items() if key != machine}
                heapq.heappush(free, (now + takes, machine))
            continue
        archives[machine].add(target)
        prepared[model] = min(prepared.get(model, float("inf")), now + takes)
        end = max(end, now + takes)
        heapq.heappush(free, (now + takes, machine))
    return end


def main() -> None:
    usual = Assumed()
    wheels = replace(usual, archive=10.0)
    second = replace(usual, cell=0.0, prepare=0.0, archive=0.0)
    for name, assumed, shards in (
        ("one machine", replace(wheels, machines=1), False),
        ("50 machines, Dask, nothing compiled before", usual, False),
        ("50 machines, shards, nothing compiled before", usual, True),
        ("50 machines, Dask, kernel wheels", wheels, False),
        ("50 machines, shards, kernel wheels", wheels, True),
        ("50 machines, Dask, kernel wheels, 10 machines die", replace(wheels, deaths=10), False),
        ("50 machines, Dask, everything in the store", second, False),
    ):
        print(f"| {name} | {seconds_of(assumed, shards=shards) / 60:.1f} min |")  # noqa: T201


if __name__ == "__main__":
    main()
