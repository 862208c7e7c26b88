"""Two folders that change places in one step: whoever looks finds the one or the other, and never none."""

import ctypes
import errno
import os
from pathlib import Path

from edgepack.api.kit import OutputError

AT_FDCWD, RENAME_EXCHANGE = -100, 2
_UNABLE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def exchange(one: Path, other: Path) -> None:
    """renameat2(2) of Linux. Raises ``OutputError`` where the file system cannot do it."""
    libc = ctypes.CDLL(None, use_errno=True)
    rename = getattr(libc, "renameat2", None)
    code = errno.ENOSYS
    if rename is not None:
        if rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0:
            return
        code = ctypes.get_errno()
    if code not in _UNABLE:
        raise OSError(code, os.strerror(code), str(other))
    raise OutputError(
        f"the file system of {other} cannot exchange two folders in one step",
        hint="--output makes the new bundle beside the old one; then let a symbolic link lead to it",
    )
