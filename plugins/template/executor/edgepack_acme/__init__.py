"""Workers for a project's bundles, registered: ``edgepack build --executor acme --scheduler ADDRESS --store ADDRESS``."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

from edgepack import api


@contextmanager
def start(scheduler: str | None, jobs: int | None) -> Iterator[Executor]:
    """The workers at an address; here, processes of this machine."""
    if scheduler is not None:
        raise api.UsageError(f"acme has no scheduler at {scheduler}", hint="leave --scheduler out")
    with ProcessPoolExecutor(jobs or 1, mp_context=get_context("spawn")) as executor:
        yield executor


def make() -> object:
    return start


@api.hookimpl
def edgepack_specs() -> Iterable[api.Spec]:
    return [api.Spec(axis="executor", name="acme", summary="our workers", make=make)]
