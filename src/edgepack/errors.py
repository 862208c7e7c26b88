"""Errors for people: one class a cause, a message, a hint, and an exit code of its own each."""

from collections.abc import Sequence
from typing import ClassVar


class EdgepackError(Exception):
    """Something a user can act on. Printed as ``error: message`` and ``hint: hint``, without a traceback."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(EdgepackError):
    """An option or argument that makes no sense (2 is also what the command-line parser exits with)."""

    exit_code = 2


class TargetError(EdgepackError):
    """No such target, or a target file that says something wrong."""

    exit_code = 3


class PluginError(EdgepackError):
    """A plugin that cannot be loaded, asked for by the chosen target."""

    exit_code = 4


class ModelError(EdgepackError):
    """A model that cannot be read: files missing, truncated or contradictory."""

    exit_code = 5


class UnsupportedModelError(EdgepackError):
    """A sound model of a kind that edgepack cannot take: architecture, pooling or operator."""

    exit_code = 6


class DownloadError(EdgepackError):
    """A file that could not be fetched: no network, no such file, or ``--offline``."""

    exit_code = 7


class HashMismatchError(EdgepackError):
    """Content that is not what was pinned; the message names both digests."""

    exit_code = 8


class MissingToolError(EdgepackError):
    """An external program that is not installed; the hint says how to install it."""

    exit_code = 9


class ToolError(EdgepackError):
    """An external program that failed; the message shows its last lines and where the log is."""

    exit_code = 10


class MismatchError(EdgepackError):
    """Model and runtime do not fit: operator kernels are lacking, or a plugin's check refuses them."""

    exit_code = 11


class ProofError(EdgepackError):
    """The shipped model does not load, or does not run right, on the shipped runtime."""

    exit_code = 12


class VerificationError(EdgepackError):
    """The bundle's vectors are further from the full-precision model's than the target allows."""

    exit_code = 13


class BudgetError(EdgepackError):
    """The bundle is larger than the target's budget."""

    exit_code = 14


class OutputError(EdgepackError):
    """The output cannot be written, or exists already."""

    exit_code = 15


class DiskFullError(EdgepackError):
    """No space left on the device that is written to."""

    exit_code = 16


class BundleError(EdgepackError):
    """A file or folder that is not what it is taken for (bundle, kernel archive, runtime library), or is damaged."""

    exit_code = 17


class FloorError(EdgepackError):
    """A file in the bundle needs a newer libc, or another processor, than the target has."""

    exit_code = 18


class SubjectError(EdgepackError):
    """What `edgepack doctor` was to examine does not answer, or answers something that is not vectors."""

    exit_code = 19


class NotVerifiedError(EdgepackError):
    """`edgepack verify` did not run a bundle, or could not judge it: its vectors may be right or wrong."""

    exit_code = 20


class CannotRunHere(Exception):  # noqa: N818 - a statement about this host, not a failure
    """This host cannot execute the bundle; the reason goes into the report."""

    def __init__(self, reason: str, *, instead: Sequence[Sequence[float]] | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.instead = instead
        """Vectors that the bundle made in another way than it will on its devices; they are measured, and verify nothing."""
