"""A matrix of cases of which a part stands for the whole in the quick run."""

from collections.abc import Iterable
from typing import Any

import pytest


def quick(values: Iterable[Any], *chosen: Any) -> list[Any]:
    """``values`` as parameters; all but those in ``chosen`` only with ``--slow``."""
    every = list(values)
    assert not set(map(str, chosen)) - set(map(str, every))
    return [each if each in chosen else pytest.param(each, marks=pytest.mark.slow) for each in every]
