"""Which sandbox works on this host: found by running something in it."""

import errno
import os
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
REFUSALS = (
    *map(os.strerror, (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EINVAL)),
    *map(os.strerror, (errno.ENOENT, errno.EROFS, errno.ENODEV, errno.EOPNOTSUPP)),
    "No permissions to creat",
    "likely because the kernel does not",
    "Unknown option",  # its older releases
)
"""What the system, or bubblewrap, says where there is no such sandbox: whatever else is said may be otherwise in a minute."""
NONE_LEFT = (os.strerror(errno.ENOSPC), "ENOSPC")
"""Of namespaces: all are in use, or none are allowed."""
ALLOWED = [
    Path(f"/proc/sys/user/max_{each}_namespaces") for each in ("user", "pid", "mnt", "net", "ipc", "uts")
]


def find_sandbox() -> sandbox.Sandbox | None:
    """The best sandbox of this host: one in which ``true`` ran just now; ``None`` where none is to be had.

    Containers without privileges and hosts that forbid user namespaces have none. Raises ``ToolError`` where that cannot be told: no
    stranger's program runs outside of a sandbox because the machine is busy.
    """
    return _find(sandbox.KINDS)


@cache
def _find(kinds: Sequence[sandbox.Kind]) -> sandbox.Sandbox | None:
    view, doubt = sandbox.view_of((), system=True), ""
    for kind in kinds:
        bwrap = tools.find("bwrap") if kind == "bubblewrap" and tools.is_installed("bwrap") else None
        # Root owns /dev/null and its like, which bubblewrap cannot show without that their owner may change their modes for all.
        if kind == "bubblewrap" and (bwrap is None or os.geteuid() == 0):
            continue
        tried = sandbox.Sandbox(kind=kind, bwrap=bwrap)
        with tempfile.TemporaryDirectory(prefix="edgepack-") as work:
            limits = RunLimits(seconds=PATIENCE)
            ended = program.confine(
                ["true"], Path("/"), sandbox=tried, view=view, work=Path(work), limits=limits
            )
        if ended.code == 0 and ended.refused is None:
            return tried
        said = limits.in_words(ended.passed) if ended.passed else f"{ended.refused or ''} {ended.messages}"
        if ended.passed or not _is_refusal(said):
            doubt = doubt or f"{kind}: {said.strip() or f'exit code {ended.code}'}"
    if doubt:
        raise ToolError(
            f"cannot tell whether this machine has a sandbox ({doubt})",
            hint="try again when the machine has processes, memory and namespaces to spare",
        )
    return None


def _is_refusal(said: str) -> bool:
    if any(each in said for each in NONE_LEFT):
        return any(each.exists() and each.read_text().strip() == "0" for each in ALLOWED)
    return any(each in said for each in REFUSALS)
