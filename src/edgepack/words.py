"""Words in messages for people."""

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` (did you mean X?)`` when something known is near, else nothing."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean {near[0]}?)" if near else ""
