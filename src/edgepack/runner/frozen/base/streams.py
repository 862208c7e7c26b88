"""The standard streams: words on standard error, and whether a person sits at one."""

import os

CONTROLS = [code for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"]


def complain(message: str, hint: str = "") -> None:
    """Two lines on standard error."""
    say(f"error: {message}\n" + (f"hint: {hint}\n" if hint else ""))


def say(text: str) -> None:
    """On standard error, whatever state it is in."""
    try:  # noqa: SIM105 - contextlib would be imported for this alone
        os.write(2, harmless(text).encode("utf-8", "backslashreplace"))
    except OSError:
        pass


def harmless(text: str, form: str = r"\x%02x") -> str:
    """The text with what steers a terminal as what it only shows: names of files and models are a stranger's words."""
    return text.translate({code: form % code for code in CONTROLS})


def is_terminal(descriptor: int) -> bool:
    """Whether a person sits there; a closed descriptor counts, for nothing will come from it either."""
    try:
        return os.isatty(descriptor) or not os.fstat(descriptor)
    except OSError:
        return True
