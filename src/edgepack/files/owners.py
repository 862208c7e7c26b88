"""Who may have written a file of this machine."""

import os
import stat
from pathlib import Path


def is_ours(path: Path, *, below: Path) -> bool:
    """Whether nobody but this user and root can have put a file there, as it is.

    It, the folder ``below`` and those between them belong to this user or root, and nobody else may write them. None but
    ``below``, which the user has named, is a link.
    """
    between = [each for each in path.parents if each.is_relative_to(below) and each != below]
    try:
        return _is_ours(below, below.stat()) and all(
            _is_ours(each, each.lstat()) for each in (*between, path)
        )
    except OSError:
        return False


def _is_ours(path: Path, found: os.stat_result) -> bool:
    if found.st_uid not in (0, os.geteuid()) or stat.S_ISLNK(found.st_mode):
        return False
    if found.st_mode & stat.S_IWGRP and (not _is_alone_in(found.st_gid) or _has_access_list(path)):
        return False
    return not found.st_mode & stat.S_IWOTH


def _has_access_list(path: Path) -> bool:
    """Whether an access control list says who else may write there: the bits of the group are its mask then."""
    return hasattr(os, "listxattr") and "system.posix_acl_access" in os.listxattr(path)


def _is_alone_in(group: int) -> bool:
    """Whether a group is this user's own: many systems make one for each user, and a umask that lets it write."""
    import grp
    import pwd

    try:
        user, own = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and own.gr_name == user.pw_name and not {*own.gr_mem} - {user.pw_name}
