"""One check of the kit: the rule, where it is written, and how what broke it is said."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

XFAIL = "edgepack_xfail"
"""The setting of pytest's that names checks which are known to fail."""


class Broken(Exception):  # noqa: N818 - a finding about a plugin, not a failure of the kit
    """A rule that does not hold: what was seen, and what the plugin's author does about it."""

    def __init__(self, seen: str, *, do: str) -> None:
        super().__init__(seen)
        self.seen = seen
        self.do = do


class NotSeen(Exception):  # noqa: N818
    """Nothing can be said of a rule here: never counted as passed."""


@dataclass(frozen=True, kw_only=True)
class KitCheck:
    """A rule that every plugin keeps to, and the code that looks."""

    name: str
    rule: str
    section: str
    """Where it is explained, from the root of the repository."""
    run: Callable[[Any], None]
    """Looks at a subject; raises ``Broken`` or ``NotSeen``."""


def check(
    name: str, rule: str, *, section: str = "docs/plugins.md"
) -> Callable[[Callable[[Any], None]], KitCheck]:
    """Makes a check of a function on a subject."""
    return lambda run: KitCheck(name=name, rule=rule, section=section, run=run)
