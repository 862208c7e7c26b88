"""How long to go on: a test tries as many inputs each time, whatever the machine does; a command goes on for some seconds."""

import time
from collections.abc import Iterator


def for_seconds(seconds: float) -> Iterator[None]:
    """One round, and further ones until that time is over."""
    end = time.monotonic() + seconds
    yield
    while time.monotonic() < end:
        yield
