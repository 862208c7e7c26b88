"""The frontier: what is worth having, what is recommended, and how it is shown."""

import re
from dataclasses import replace
from itertools import combinations

import pytest

from edgepack.recipes.frontier import FrontierPoint, is_dominated, recommendations
from edgepack.records.report import Scores, TaskFigure, Verification
from edgepack.reports.frontier import HEAD, as_dict, heads, recommendation_lines, rows
from edgepack.reports.page.frontier import frontier_page
from edgepack.reports.scatter import LETTER, LINE, Mark, scatter


def point(
    name: str, compressed_bytes: int, cosine: float, milliseconds: float, *, within: bool = True
) -> FrontierPoint:
    quality = Verification(
        status="passed", texts=2, mean_cosine=cosine, min_cosine=cosine, neighbour_agreement=1.0
    )
    return FrontierPoint(
        name=name,
        bytes=compressed_bytes,
        compressed_bytes=compressed_bytes,
        milliseconds=milliseconds,
        quality=quality,
        within=within,
    )


FULL = point("fp32", 80_000_000, 1.0, 8.0)
INT8 = point("int8", 20_000_000, 0.999, 3.5)
WORSE = point("int8-dynamic", 20_000_001, 0.99, 3.6)
SMALL = point("int4", 12_000_000, 0.98, 9.0, within=False)
POINTS = [FULL, INT8, WORSE, SMALL]


def test_dominated_is_what_another_beats_in_everything() -> None:
    assert [each.name for each in POINTS if is_dominated(each, POINTS)] == ["int8-dynamic"]


def test_equal_points_do_not_dominate_each_other() -> None:
    twin = point("twin", 20_000_000, 0.999, 3.5)
    assert not is_dominated(INT8, [INT8, twin])


def test_what_the_gate_refuses_is_not_recommended() -> None:
    smallest, fastest = recommendations(POINTS)
    assert smallest.point is INT8 and fastest.point is INT8
    assert recommendation_lines([SMALL]) == [
        "smallest within the gate: none of them",
        "fastest within the gate: none of them",
    ]


def test_the_table_begins_with_the_smallest_download_and_says_what_to_think_of_each() -> None:
    shown = {row[0]: row[-1] for row in rows(POINTS)}
    assert list(shown) == ["int4", "int8", "int8-dynamic", "fp32"]
    assert shown["int4"] == "below the gate"
    assert shown["int8"] == "smallest, fastest"
    assert shown["int8-dynamic"] == "dominated"


def test_data_for_programs() -> None:
    data = as_dict(POINTS)
    assert data["choices"] == {"smallest within the gate": "int8", "fastest within the gate": "int8"}
    assert [each["dominated"] for each in data["points"]] == [False, False, True, False]
    assert [each["compressed_bytes"] for each in data["points"]] == [each.compressed_bytes for each in POINTS]


def test_the_page_holds_its_plots_and_asks_nobody() -> None:
    page = frontier_page(POINTS, "a <model>")
    assert page.count("<circle") == 2 * len(POINTS), "one for wide windows, one for narrow ones"
    assert "a &lt;model&gt;" in page and "http-equiv" in page and "http:" not in page and "https:" not in page
    assert "<script" not in page and "default-src 'none'; style-src 'unsafe-inline'\"" in page
    assert re.findall("<h3>(.*?)</h3><strong>(.*?)</strong>", page) == [
        ("Smallest within the gate", "int8"),
        ("Fastest within the gate", "int8"),
    ]


def box(mark: Mark) -> tuple[float, float, float, float]:
    end = mark.label_x + LETTER * len(mark.label)
    return mark.label_x, mark.label_y - LINE / 2, end, mark.label_y + LINE / 2


@pytest.mark.parametrize("spread", [1, 100_000, 1_000_000])
def test_no_name_lies_upon_another_or_upon_a_point(spread: int) -> None:
    crowd = [
        point(f"recipe number {at}", 20_000_000 + at * spread, 0.999 - at * 1e-5, 3.0) for at in range(12)
    ]
    last = point("the largest of them all", 80_000_000, 1.0, 8.0)
    points = [*crowd, last]
    marks = scatter(points, [each.name for each in points], width=860, height=480).marks
    for one, other in combinations(marks, 2):
        (a, b, c, d), (e, f, g, h) = box(one), box(other)
        assert c <= e or g <= a or d <= f + 1e-9 or h <= b + 1e-9, f"{one.label}, {other.label}"
    for name in marks:
        left, top, right, bottom = box(name)
        assert left >= 0 and right <= 860 and top >= 0 and bottom <= 480
        for mark in marks:
            clear = (right <= mark.x - mark.radius or mark.x + mark.radius <= left) or (
                bottom <= mark.y - mark.radius or mark.y + mark.radius <= top
            )
            assert clear, f"{name.label} lies upon {mark.label}"
    assert all(0 < mark.x < 860 and 0 < mark.y < 480 for mark in marks)


def test_the_page_names_its_axes_and_fits_a_phone() -> None:
    page = frontier_page(POINTS, "recipes")
    assert 'name="viewport"' in page
    assert "download: MB under zstd" in page and "mean cosine to fp32 (higher is better)" in page
    said = "int4: 12.00 MB under zstd, mean cosine 0.98000, lowest 0.9800, 9.00 ms"
    assert page.count(f"<title>{said}</title>") == 2 and f'aria-label="{said}"' in page
    narrow = page.partition('<div class="narrow">')[2]
    assert re.findall(r'<text x="[\d.]+" y="[\d.]+">([^<]*)</text>', narrow) == ["1", "2", "3", "4"]


@pytest.mark.parametrize(("gate", "shaded"), [(0.985, True), (0.5, False), (0.0, False)])
def test_what_is_below_the_gate_is_shaded(gate: float, shaded: bool) -> None:
    page = frontier_page(POINTS, "recipes", gate=gate)
    assert (f"mean cosine under {gate:g}" in page) == ('<rect class="gate"' in page) == shaded
    if shaded:
        (top,) = {float(y) for y in re.findall(r'<rect class="gate" y="([\d.]+)" width="860', page)}
        places = {
            mark.point.name: mark.y
            for mark in scatter(POINTS, [""] * len(POINTS), width=860, height=480).marks
        }
        assert places["int4"] > top > places["int8-dynamic"]


def test_scores_and_tasks_have_columns_of_their_own() -> None:
    task = TaskFigure(limit="max_sts_loss", what="Spearman", value=0.8199, value_fp32=0.8203)
    scores = Scores(texts=1000, tau=0.987, kept=0.99, largest=0.01)
    full = [replace(INT8, quality=replace(INT8.quality, tasks=(task,), scores=scores)), FULL]
    assert heads(full) == (*HEAD[:-1], "tau", "best kept", "STS-B", "")
    assert [row[len(HEAD) - 1 : -1] for row in rows(full)] == [("0.9870", "99.0%", "0.8199"), ("", "", "")]
    assert '<th scope="col">STS-B</th>' in frontier_page(full, "a model")
    assert heads(POINTS) == HEAD
