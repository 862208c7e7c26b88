"""Which tests `make test` leaves to `make test-all`.

``@pytest.mark.slow``: a test that takes seconds and has quicker neighbours, or that needs another processor's emulator, wine,
a browser or npm's tools. ``@pytest.mark.sample(3)``: of a test's cases three run in `make test`, evenly spaced, and all in
`make test-all`. The third tier, of the judges, is one of files: ``judge_*.py``.
"""

from collections import defaultdict

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also what takes long: `make test-all`")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    left = {item for item in items if item.get_closest_marker("slow")}
    left |= _beside_samples([item for item in items if item not in left])
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=[*left])


def _beside_samples(items: list[pytest.Item]) -> set[pytest.Item]:
    """The cases that their test's sample does not take."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sample"):
            cases[item.nodeid.partition("[")[0]].append(item)
    return {item for each in cases.values() for item in each if item not in _sample(each)}


def _sample(cases: list[pytest.Item]) -> list[pytest.Item]:
    mark = cases[0].get_closest_marker("sample")
    assert mark is not None
    count = min(mark.args[0], len(cases))
    return [cases[index * len(cases) // count] for index in range(count)]
