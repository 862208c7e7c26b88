"""Which sandbox works on this host: found by running something in it."""

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from edgepack import tools
from edgepack.verifier.confined import program, sandbox
from edgepack.verifier.confined.limits import RunLimits

PATIENCE = 60
"""Seconds for ``true``: a sandbox in which it takes longer is none."""


def find_sandbox() -> sandbox.Sandbox | None:
    """The best sandbox of this host: one in which ``true`` ran just now; ``None`` where none is to be had.

    Containers without privileges and hosts that forbid user namespaces have none.
    """
    return _find(sandbox.KINDS)


@cache
def _find(kinds: Sequence[sandbox.Kind]) -> sandbox.Sandbox | None:
    view = sandbox.view_of((), system=True)
    for kind in kinds:
        bwrap = tools.find("bwrap") if kind == "bubblewrap" and tools.is_installed("bwrap") else None
        if kind == "bubblewrap" and bwrap is None:
            continue
        tried = sandbox.Sandbox(kind=kind, bwrap=bwrap)
        with tempfile.TemporaryDirectory(prefix="edgepack-") as work:
            limits = RunLimits(seconds=PATIENCE)
            ended = program.confine(
                ["true"], Path("/"), sandbox=tried, view=view, work=Path(work), limits=limits
            )
        if ended.code == 0 and ended.refused is None:
            return tried
    return None
