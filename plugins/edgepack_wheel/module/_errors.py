from __future__ import annotations


class EmbedError(RuntimeError):
    """What the bundle said; ``code`` is as its program's exit codes: 4 a damaged file, 5 it does not run here."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def refusal(message: str, code: int) -> Exception:
    """The exception for an exit code: 2 is a wish that the model cannot fulfil."""
    return ValueError(message) if code == 2 else EmbedError(message, code)
