"""Errors for people: one class per cause, each with a message, a hint and its own exit code."""

from collections.abc import Sequence
from typing import ClassVar


def reason_of(error: BaseException) -> str:
    """An error's words; of a system call's without ``[Errno 2]`` and the path, which the sentence around it has."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


class EdgepackError(Exception):
    """A failure that a user can act on. Printed as ``error: message`` and ``hint: hint``, without a traceback."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(EdgepackError):
    """An invalid option or argument; the command-line parser exits with 2, too."""

    exit_code = 2


class TargetError(EdgepackError):
    """No such target, or an invalid target file."""

    exit_code = 3


class PluginError(EdgepackError):
    """The chosen target requires a plugin that cannot be loaded."""

    exit_code = 4


class ModelError(EdgepackError):
    """A model cannot be read: files are missing, truncated or contradictory."""

    exit_code = 5


class UnsupportedModelError(EdgepackError):
    """A valid model of a kind that edgepack does not support: architecture, pooling or operator."""

    exit_code = 6


class DownloadError(EdgepackError):
    """A file could not be downloaded: no network, no such file, or ``--offline``."""

    exit_code = 7


class HashMismatchError(EdgepackError):
    """Content does not match its pinned digest; the message names both digests."""

    exit_code = 8


class MissingToolError(EdgepackError):
    """A required external program is not installed; the hint says how to install it."""

    exit_code = 9


class ToolError(EdgepackError):
    """An external program failed; the message shows its last lines and the path of its log."""

    exit_code = 10


class MismatchError(EdgepackError):
    """Model and runtime do not match: operator kernels are missing, or a plugin's check rejects them."""

    exit_code = 11


class ProofError(EdgepackError):
    """The shipped model does not load on the shipped runtime, or gives wrong vectors there."""

    exit_code = 12


class VerificationError(EdgepackError):
    """The bundle's vectors differ from the full-precision model's by more than the target allows."""

    exit_code = 13


class BudgetError(EdgepackError):
    """The bundle is larger than the target's budget."""

    exit_code = 14
    download = 0
    """Bytes that are too many to download, if it is those."""


class OutputError(EdgepackError):
    """The output cannot be written, or already exists."""

    exit_code = 15


class DiskFullError(EdgepackError):
    """No space is left on the disk."""

    exit_code = 16


class BundleError(EdgepackError):
    """A bundle, kernel archive or runtime library is damaged, or is something else."""

    exit_code = 17


class FloorError(EdgepackError):
    """A file in the bundle requires a newer libc, or another processor, than the target's devices have."""

    exit_code = 18


class SubjectError(EdgepackError):
    """The server, program or file that `edgepack doctor` examines gives no answer, or no vectors."""

    exit_code = 19


class NotVerifiedError(EdgepackError):
    """`edgepack verify` did not run the bundle, or could not judge it: its vectors may be right or wrong."""

    exit_code = 20


class SignatureError(EdgepackError):
    """A required signature is missing, was made with another key, or does not match the files."""

    exit_code = 21


class ReproducibilityError(EdgepackError):
    """`edgepack bundle --check-reproducible`: a second build of the same inputs gave other bytes."""

    exit_code = 22


class UploadError(EdgepackError):
    """A server cannot be reached or does not accept what is sent to it."""

    exit_code = 23


class DeviceError(EdgepackError):
    """A device (`edgepack verify --on`) cannot be reached, went away, does not answer in time, or has no place for the bundle; or a
    record of the required device is missing."""

    exit_code = 24


class CannotRunHere(Exception):  # noqa: N818 - a statement about this host, not a failure
    """This host cannot execute the bundle; the reason goes into the report."""

    def __init__(self, reason: str, *, instead: Sequence[Sequence[float]] | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.instead = instead
        """Vectors that the bundle made in another way than it will on its devices; they are measured, and verify nothing."""
