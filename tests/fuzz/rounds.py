"""How long to go on: a test tries as many inputs each time, whatever the machine does; a campaign goes on for some seconds."""

import time
from collections.abc import Callable, Iterator

Campaign = tuple[str, Callable[[float, int], int]]
"""What is fuzzed, and what does it for so many seconds with a seed: how many inputs were tried."""


def for_seconds(seconds: float) -> Iterator[None]:
    """One round, and further ones until that time is over."""
    end = time.monotonic() + seconds
    yield
    while time.monotonic() < end:
        yield
