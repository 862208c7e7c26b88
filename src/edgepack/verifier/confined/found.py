"""Which sandbox works on this host: found by running something in it."""

import errno
import os
import re
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from edgepack import tools
from edgepack.errors import ToolError
from edgepack.verifier.confined import program, sandbox
from edgepack.verifier.confined.limits import RunLimits

PATIENCE = 60
"""Seconds for ``true``."""
PASSING = re.compile(
    "|".join(os.strerror(each) for each in (errno.EAGAIN, errno.ENOMEM, errno.ENFILE, errno.EMFILE))
)
"""What the system says where it has not enough just now: that is not to lack a sandbox."""


def find_sandbox() -> sandbox.Sandbox | None:
    """The best sandbox of this host: one in which ``true`` ran just now; ``None`` where none is to be had.

    Containers without privileges and hosts that forbid user namespaces have none. Raises ``ToolError`` where that cannot be told: no
    stranger's program runs outside of a sandbox because the machine is busy.
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
        said = f"{ended.refused or ''} {ended.messages}"
        if ended.passed is not None or PASSING.search(said):
            why = limits.in_words(ended.passed) if ended.passed is not None else said.strip()
            raise ToolError(
                f"cannot tell whether this machine has a sandbox ({kind}): {why}",
                hint="try again when the machine has processes and memory to spare",
            )
    return None
