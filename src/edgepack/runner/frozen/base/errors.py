"""What can go wrong on the device: a sentence, a hint, and an exit code of its own each."""


class EmbedError(Exception):
    """Printed as ``error: message`` and ``hint: hint``; the program ends with ``exit_code``."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(EmbedError):
    """Arguments that make no sense, or no text at all."""

    exit_code = 2


class InputError(EmbedError):
    """A line of the input that is not what it should be; the message names the line."""

    exit_code = 3


class BundleError(EmbedError):
    """A file of the bundle that is missing or not the one that was made."""

    exit_code = 4


class RuntimeFailure(EmbedError):  # noqa: N818 - RuntimeError is Python's
    """The library or the model cannot be loaded or run on this device."""

    exit_code = 5


class SelfTestFailure(EmbedError):  # noqa: N818 - the vectors failed, not the program
    """The vectors are not those that the bundle was made with."""

    exit_code = 6


class OutputError(EmbedError):
    """The output cannot be written."""

    exit_code = 7


class ListenError(EmbedError):
    """The server cannot have the address that it should listen on."""

    exit_code = 8


class DeviceError(EmbedError):
    """The device's GPU, its driver or its libraries are not what the bundle was made for."""

    exit_code = 9
