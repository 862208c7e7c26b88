"""Words in messages for people."""

import difflib
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

T = TypeVar("T")

_LINES = "\n\t"
_RESULTS = frozenset("✓✔✅☑√🗸🗹✗✘✖✕❌❎☒🗴🗵🗶🗷")
"""Signs of a result, and what looks like them."""
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
    names = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.55)
    return f" (did you mean {names[near[0]]}?)" if near else ""


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


def foreign(text: str) -> str:
    """Somebody else's words, to stand in a line of ours: ``harmless``, without line breaks and without the signs of a result.

    A name could otherwise end with a line that says ``verified ✓``, or be a tick in a column of ticks.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(letter if _is_plain(letter) else _escape(letter) for letter in text)


def indented(text: str) -> str:
    """A message whose further lines are indented: whatever words are in it, no line of ours begins with them, nor a hint."""
    return re.sub(r"[\n\u2028\u2029]", "\n  ", text.rstrip("\n"))


def _is_plain(letter: str) -> bool:
    # Zl, Zp: line and paragraph separators.
    return (
        letter not in _RESULTS
        and letter not in _LINES
        and _is_shown(letter)
        and unicodedata.category(letter) not in ("Zl", "Zp")
    )


def foreign_words(value: T) -> T:
    """The value with every text in it as ``foreign``; dataclasses, mappings and sequences are gone through."""
    return cast(T, _foreign_words(value))


def _foreign_words(value: Any) -> Any:
    if isinstance(value, str):
        return foreign(value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{each.name: _foreign_words(getattr(value, each.name)) for each in fields(value)}
        )
    if isinstance(value, Mapping):
        return {_foreign_words(key): _foreign_words(each) for key, each in value.items()}
    return tuple(map(_foreign_words, value)) if isinstance(value, (tuple, list)) else value


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
