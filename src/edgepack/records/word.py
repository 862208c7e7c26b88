"""Whose word a recorded result is."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Word:
    """Who says what is recorded of a bundle. Only what ``counts`` is shown as a result; the rest is what its maker says."""

    whose: Literal["here", "key", "store", "maker"]
    """``here``: edgepack saw it on this machine; ``key``: signed with a key that the user named; ``store``: from a store whose secret
    this machine knows; ``maker``: anyone's."""
    key: str = ""
    """SHA-256 of that key's PEM."""

    @property
    def counts(self) -> bool:
        """Whether it is ours, or of somebody whom the user named."""
        return self.whose != "maker"

    def __str__(self) -> str:
        return {
            "here": "seen here",
            "key": f"signed with the key {self.key[:12]}…",
            "store": "from a store whose secret is known here",
            "maker": "says its maker",
        }[self.whose]


HERE, STORE, MAKER = Word(whose="here"), Word(whose="store"), Word(whose="maker")
