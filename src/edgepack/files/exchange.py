"""Two folders that change places in one step: whoever looks finds the one or the other, and never none."""

import ctypes
import errno
import os
from pathlib import Path

AT_FDCWD, RENAME_EXCHANGE = -100, 2
_UNABLE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def exchange(one: Path, other: Path) -> bool:
    """renameat2(2) of Linux; ``False``, and nothing done, where the C library, the kernel or the file system has none.

    Raises ``OSError`` for any other refusal.
    """
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return True
    if (code := ctypes.get_errno()) in _UNABLE:
        return False
    raise OSError(code, os.strerror(code), str(other))
