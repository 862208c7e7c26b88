"""Starts a program as on Linux 3.2 on x86-64: ``python old_kernel.py PROGRAM [ARGUMENT …]``.

A seccomp filter answers what came later: a system call with ENOSYS, a flag of an older call with EINVAL. A process that it
starts has the filter, too. ``AS_ON_LINUX_3_2`` are the words to put before a command.
"""

import ctypes
import errno
import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

LAST_CALL = 311
"""process_vm_writev, which came with Linux 3.2; kcmp, number 312, with 3.5."""
AS_ON_LINUX_3_2 = (sys.executable, "-S", "-E", __file__)


class Known(NamedTuple):
    """What 3.2 knows of an argument, or less: its bits in ``flags``, and besides them numbers up to ``greatest``."""

    call: int
    argument: int
    flags: int
    greatest: int = 0


OPEN = 0o17777703
KNOWN = (
    Known(2, 1, OPEN),  # open, without O_TMPFILE (3.11)
    Known(257, 2, OPEN),  # openat
    Known(9, 3, 0x7F970, 2),  # mmap, without MAP_SHARED_VALIDATE, MAP_SYNC (4.15), MAP_FIXED_NOREPLACE (4.17)
    Known(28, 2, 0, 4),  # madvise, without MADV_FREE (4.5)
    Known(41, 1, 0o2004000, 15),  # socket
    Known(44, 3, 0x4001FFFF),  # sendto, without MSG_FASTOPEN (3.6), MSG_ZEROCOPY (4.14)
    Known(45, 3, 0x4001FFFF),  # recvfrom
    Known(56, 0, 0xFDFFEFFF),  # clone, without CLONE_NEWCGROUP (4.6), CLONE_PIDFD (5.2)
    Known(72, 1, 0x400, 8),  # fcntl, without open file description locks (3.15), F_ADD_SEALS (3.17)
    Known(157, 0, 0, 34),  # prctl
    Known(202, 1, 0x180, 12),  # futex
    Known(288, 3, 0o2004000),  # accept4
    Known(290, 1, 0o2004001),  # eventfd2
    Known(293, 1, 0o2004000),  # pipe2, without O_DIRECT (3.4)
)

LOAD, AND, IS, ABOVE, ANSWER = 0x20, 0x54, 0x15, 0x25, 0x06
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
X86_64 = 0xC000003E
ALLOW, FAIL, KILL = 0x7FFF0000, 0x00050000, 0x80000000
SET_SECCOMP, SET_NO_NEW_PRIVILEGES, FILTER = 22, 38, 2


class Step(ctypes.Structure):
    """struct sock_filter."""

    _fields_ = (
        ("code", ctypes.c_ushort),
        ("yes", ctypes.c_ubyte),
        ("no", ctypes.c_ubyte),
        ("k", ctypes.c_uint),
    )


class Filter(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.POINTER(Step)))


def steps() -> Iterator[tuple[int, int, int, int]]:
    """The filter: what a step does, how many it leaves out after yes and after no, and its number."""
    yield from ((LOAD, 0, 0, ARCHITECTURE), (IS, 1, 0, X86_64), (ANSWER, 0, 0, KILL), (LOAD, 0, 0, NUMBER))
    # The calls of x32 have numbers of 2³⁰ and more.
    yield from ((ABOVE, 0, 1, LAST_CALL), (ANSWER, 0, 0, FAIL | errno.ENOSYS))
    for each in KNOWN:
        yield from ((IS, 0, 5, each.call), (LOAD, 0, 0, ARGUMENTS + 8 * each.argument))
        yield from ((AND, 0, 0, ~each.flags & 0xFFFFFFFF), (ABOVE, 0, 1, each.greatest))
        yield from ((ANSWER, 0, 0, FAIL | errno.EINVAL), (ANSWER, 0, 0, ALLOW))
    yield (ANSWER, 0, 0, ALLOW)


def enter() -> None:
    """Put this process under the filter. Raises ``OSError``."""
    listed = [Step(*step) for step in steps()]
    program = Filter(len(listed), (Step * len(listed))(*listed))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for arguments in (
        (SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0),
        (SET_SECCOMP, FILTER, ctypes.byref(program), 0, 0),
    ):
        if prctl(*arguments):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def start(*command: str) -> None:
    enter()
    os.execv(command[0], command)


if __name__ == "__main__":
    start(*sys.argv[1:])
