"""Words in messages for people."""

import difflib
import os
import sys
import unicodedata
from collections.abc import Iterable

_LINES = "\n\t"
_SPELLED = {
    "…": "...",
    "✓": "ok",
    "✗": "NO",
    "≥": ">=",
    "≤": "<=",
    "·": "-",
    "→": "->",
    **dict.fromkeys("—─", "-"),
}
"""edgepack's own signs, for terminals that know ASCII only."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` (did you mean X?)`` when something known is near, else nothing."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean {near[0]}?)" if near else ""


def harmless(text: str) -> str:
    """Text that a terminal only shows: what would steer it, or turn its lines around, is written as an escape (``\\x1b``).

    Names of files and models are a stranger's words: they could clear a screen, hide an error, or set a window's title.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(letter if _is_shown(letter) else _escape(letter) for letter in text)


def _is_shown(letter: str) -> bool:
    # Cc: control; Cf: marks without width, those that turn the direction of writing among them; Cs: halves of characters.
    return letter in _LINES or unicodedata.category(letter) not in ("Cc", "Cf", "Cs")


def _escape(letter: str) -> str:
    return (
        letter.encode("ascii", "backslashreplace").decode() if ord(letter) > 0x7F else f"\\x{ord(letter):02x}"
    )


def ascii_only() -> bool:
    """Whether the terminal may not know other letters: ``LC_ALL=C``, or an encoding of the output that is not Unicode's.

    ``LANG=C`` says nothing: it is what containers and cron have, whose output goes to terminals that know UTF-8.
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return os.environ.get("LC_ALL") in ("C", "POSIX") or not encoding.lower().startswith("utf")


def shown(text: str) -> str:
    """Text as it is shown: ``harmless``, and its signs spelled in ASCII where the terminal knows nothing else."""
    if ascii_only():
        text = "".join(_SPELLED.get(letter, letter) for letter in text)
        text = text.encode("ascii", "backslashreplace").decode()
    return harmless(text)
