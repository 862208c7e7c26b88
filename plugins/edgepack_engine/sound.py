"""A finished plan read again: whether its products are exact on every processor."""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import numpy as np

from edgepack.api import Bundle, PreparedModel, RuntimeArtifact, Target
from edgepack_engine.plan import HEADER, MAGIC, STEP, STEP_SIZES, STEP_TENSORS, WIDEST_PAIR, Operation


class PairCheck:
    """A check of bundles alone: what ``lower`` makes keeps the bound."""

    def __call__(
        self, model: PreparedModel, runtime: RuntimeArtifact | None, target: Target, /
    ) -> Iterable[str] | None:
        return None

    def bundle(self, bundle: Bundle, /) -> Iterable[str] | None:
        """Faults of the bundle's plans; ``None`` for a bundle without one.

        A plan is known by how it begins: what a manifest calls it is its maker's word.
        """
        model = bundle.manifest["model"]
        plans = {path for path in _files(bundle) if _begins_as_plan(path)}
        if model.get("format") == "plan":
            plans.add(bundle.directory / str(model["file"]))
        if not plans:
            return None
        widest = max(map(widest_pair, plans))
        if widest <= WIDEST_PAIR:
            return []
        return [
            f"two neighbouring weights are {widest} together, above {WIDEST_PAIR}: processors without VNNI clip their sums"
        ]


def _files(bundle: Bundle) -> Iterator[Path]:
    yield from (bundle.directory / str(file["path"]) for file in bundle.manifest["files"])


def _begins_as_plan(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def widest_pair(plan: Path) -> int:
    """The largest sum of two neighbouring weights' magnitudes in a plan's products. Raises ``ValueError`` for a file that is no plan."""
    content = np.memmap(plan, np.uint8, "r")
    # Layers may share their weights, which are looked at once.
    products = set(_products(content))
    if sum(size for _, size in products) > len(content):
        raise ValueError("weights that lie over one another")
    return max((_widest(content[at : at + size].view(np.int8)) for at, size in products), default=0)


def has_steps(plan: Path, operations: Collection[Operation]) -> bool:
    """Whether a plan has one of these. Raises ``ValueError`` for a file that is no plan."""
    return any(step[0] in operations for step in _steps(np.memmap(plan, np.uint8, "r")))


def _steps(content: np.ndarray) -> Iterator[tuple[int, ...]]:
    if len(content) < HEADER.size:
        raise ValueError("too short for a plan")
    magic, size, count, *_, steps_at = HEADER.unpack(content[: HEADER.size].tobytes())
    if magic != MAGIC or size != len(content) or steps_at + count * STEP.size > size:
        raise ValueError("no plan")
    for at in range(steps_at, steps_at + count * STEP.size, STEP.size):
        yield STEP.unpack(content[at : at + STEP.size].tobytes())


def _products(content: np.ndarray) -> Iterator[tuple[int, int]]:
    """Place and bytes of the weights of each product."""
    for step in _steps(content):
        if step[0] != Operation.PRODUCT:
            continue
        place, bytes_ = step[STEP_TENSORS], step[STEP_SIZES] * step[STEP_SIZES + 1]
        if not place or bytes_ % 2 or place + bytes_ > len(content):
            raise ValueError("weights outside of the plan")
        yield place, bytes_


def _widest(weights: np.ndarray) -> int:
    """Rows of a panel lie four together (``packed``), so neighbours in memory are neighbours in depth."""
    pairs = np.abs(weights.astype(np.int16)).reshape(-1, 2).sum(axis=1)
    return int(pairs.max(initial=0))
