"""Which tasks the full gate asks of a model beside retrieval, and what its vectors are worth in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from edgepack.context import BuildContext
from edgepack.errors import EdgepackError
from edgepack.models.reference import cached_reference
from edgepack.records.model import ModelSource
from edgepack.records.report import TaskFigure
from edgepack.verifier.tasks.man_pages import is_multilingual, man_pages_task
from edgepack.verifier.tasks.sts import sts_task
from edgepack.verifier.tasks.task import Task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Embed = Callable[[Sequence[str]], NDArray[np.float32]]

TASKS: Mapping[str, tuple[str, Callable[..., Task]]] = {
    "max_sts_loss": ("STSBenchmark", sts_task),
    "max_translation_loss": ("man pages in six languages", man_pages_task),
}
"""Key of a target that limits the loss → name in words, and what poses the task."""


def task_figures(embed: Embed, source: ModelSource, *, context: BuildContext) -> Iterator[TaskFigure]:
    """Figures of tasks for the vectors of ``embed`` and the full-precision model's; a task that cannot be had says why."""
    for limit in _asked_of(source):
        name, pose = TASKS[limit]
        try:
            task = pose(context=context)
        except EdgepackError as error:
            yield TaskFigure(limit=limit, what=name, value=None, value_fp32=None, missing=error.message)
            continue
        ours, theirs = embed(task.texts), cached_reference(source, task.texts, context=context)
        yield TaskFigure(limit=limit, what=task.what, value=task.score(ours), value_fp32=task.score(theirs))


def fetch_tasks(source: ModelSource, *, context: BuildContext) -> None:
    """Bring what is asked of this model into the store, or say why that cannot be done."""
    for limit in _asked_of(source):
        name, pose = TASKS[limit]
        try:
            context.note(f"{name}: {len(pose(context=context).texts):,} texts")
        except EdgepackError as error:
            context.note(f"{name}: {error.message}")


def _asked_of(source: ModelSource) -> list[str]:
    """Keys of ``TASKS``; none for rerankers and classifiers, whose vectors are not for comparing texts."""
    if source.head is not None:
        return []
    return [limit for limit in TASKS if limit != "max_translation_loss" or is_multilingual(source)]
