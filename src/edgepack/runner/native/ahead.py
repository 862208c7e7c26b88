"""Compiling what a first bundle's program is linked of, on the processors that preparing its model leaves free.

In a process of its own, which ends when its standard input does: also when whoever started it was killed. What it has compiled lies in the
store, where the step that makes the runner finds it; the rest is left to that step.
"""

import os
import pickle
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import EdgepackError
from edgepack.files.store import Store
from edgepack.foundry.compile.objects import compilers
from edgepack.foundry.link.program import build_program
from edgepack.foundry.link.reduced_library import open_build
from edgepack.foundry.releases.registry import RELEASE
from edgepack.foundry.units import ProgramSources
from edgepack.plugins.context import host_context
from edgepack.records.runtime import RuntimeKind
from edgepack.records.target import Platform
from edgepack.tools import beside

ARCHIVES = "kernel-archive"
LOWER = 10
"""Of the priority: preparing the model is what everything else waits for."""


@dataclass(frozen=True, kw_only=True)
class Ahead:
    """Programs that will be linked of ONNX Runtime: nearly all of their objects are the same for any encoder."""

    sources: tuple[ProgramSources, ...]
    platform: Platform
    kind: RuntimeKind
    glibc: str | None
    root: Path
    """The store's."""
    work_dir: Path
    """The build's, where headers are compiled for both."""
    offline: bool


@contextmanager
def compiling_ahead(
    sources: tuple[ProgramSources, ...],
    *,
    platform: Platform,
    kind: RuntimeKind,
    glibc: str | None,
    context: BuildContext,
) -> Iterator[None]:
    """Compile until the block ends, where nothing of ONNX Runtime is in the store and there is more than one processor.

    Objects that are begun are finished; until then who wants one of the archive waits for its lock.
    """
    store = context.store
    compiled = any((store.root / ARCHIVES).glob("*")) or store.shared is not None
    if compiled or compilers() == 1 or RELEASE.usual is None:
        yield
        return
    order = Ahead(
        sources=sources,
        platform=platform,
        kind=kind,
        glibc=glibc,
        root=store.root,
        work_dir=context.work_dir,
        offline=context.offline,
    )
    file = context.work_dir / "ahead"
    file.write_bytes(pickle.dumps(order))
    with beside([sys.executable, "-P", "-m", "edgepack.runner.native.ahead", file]):
        yield


def compile_ahead(order: Ahead) -> None:
    """Make the programs for a usual encoder, or as much of them as there is time for."""
    needs = RELEASE.usual
    assert needs is not None, "asked before"
    with host_context(offline=order.offline, store=Store(root=order.root)) as own:
        context = replace(own, work_dir=order.work_dir)
        platform, kind, glibc = order.platform, order.kind, order.glibc
        open_build(needs, platform=platform, kind=kind, glibc=glibc, context=context)
        # From here on it may stop anywhere: what is compiled stays.
        threading.Thread(target=_stop_when_left, daemon=True).start()
        for one in order.sources:
            build_program(one, needs, platform=platform, kind=kind, glibc=glibc, context=context)


def _stop_when_left() -> None:
    sys.stdin.buffer.read()
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def main(file: str) -> None:
    """The process of its own. What goes wrong here goes wrong again where it is told."""
    os.nice(LOWER)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(EdgepackError, KeyboardInterrupt):
        compile_ahead(pickle.loads(Path(file).read_bytes()))


if __name__ == "__main__":
    main(sys.argv[1])
