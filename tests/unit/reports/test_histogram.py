"""The drawing of the cosines."""

import re

import pytest

from edgepack.reports.page.histogram import BINS, HEIGHT, WIDTH, histogram


def bars(drawn: str) -> list[tuple[float, float, int]]:
    """Left edge, height and texts."""
    found = re.findall(
        r'<rect x="([\d.]+)" y="[\d.]+" width="[\d.]+" height="([\d.]+)"><title>(\d+) text', drawn
    )
    return [(float(x), float(height), int(texts)) for x, height, texts in found]


def test_each_text_is_in_one_bar_and_the_tallest_fills_the_drawing() -> None:
    drawn = bars(histogram([0.5, 0.75, 0.75, 0.75, 1.0, 1.0]))
    assert [texts for _, _, texts in drawn] == [1, 3, 2]
    assert [round(x / (WIDTH / BINS)) for x, _, _ in drawn] == [0, BINS // 2, BINS - 1]
    assert max(height for _, height, _ in drawn) == HEIGHT


def test_vectors_that_are_equal_are_one_bar() -> None:
    assert [texts for _, _, texts in bars(histogram([1.0] * 200))] == [200]


@pytest.mark.parametrize(("limit", "shown"), [(0.95, True), (0.5, False), (None, False)])
def test_a_limit_is_drawn_where_it_is_in_sight(limit: float | None, shown: bool) -> None:
    assert ('class="limit"' in histogram([0.9, 1.0], limit=limit)) == shown


def test_nothing_measured_nothing_drawn() -> None:
    assert histogram([]) == ""
