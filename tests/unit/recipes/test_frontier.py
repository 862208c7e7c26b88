"""The frontier: what is worth having, what is recommended, and how it is shown."""

from itertools import pairwise

from edgepack.recipes.frontier import Point, is_dominated, recommendations
from edgepack.records.report import Verification
from edgepack.reports.frontier import as_dict, frontier_page, recommendation_lines, rows
from edgepack.reports.scatter import HEIGHT, LINE, WIDTH, scatter


def point(
    name: str, compressed_bytes: int, cosine: float, milliseconds: float, *, within: bool = True
) -> Point:
    quality = Verification(
        status="passed", texts=2, mean_cosine=cosine, min_cosine=cosine, neighbour_agreement=1.0
    )
    return Point(
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
    assert shown["int8"] == "smallest within the gate, fastest within the gate"
    assert shown["int8-dynamic"] == "dominated"


def test_data_for_programs() -> None:
    data = as_dict(POINTS)
    assert data["choices"] == {"smallest within the gate": "int8", "fastest within the gate": "int8"}
    assert [each["dominated"] for each in data["points"]] == [False, False, True, False]
    assert [each["compressed_bytes"] for each in data["points"]] == [each.compressed_bytes for each in POINTS]


def test_the_page_holds_its_plot_and_asks_nobody() -> None:
    page = frontier_page(POINTS, "a <model>")
    assert page.count("<circle") == 4
    assert "a &lt;model&gt;" in page and "http" not in page and "<script" not in page


def test_no_name_lies_upon_another() -> None:
    crowd = [point(f"recipe number {at}", 20_000_000 + at, 0.999, 3.0) for at in range(12)]
    last = point("the largest of them all", 80_000_000, 1.0, 8.0)
    marks = scatter([*crowd, last]).marks
    lines = sorted(mark.label_y for mark in marks if mark.point is not last)
    assert all(below - above >= LINE for above, below in pairwise(lines))
    (alone,) = (mark for mark in marks if mark.point is last)
    assert alone.label_x < alone.x, "at the right edge the name stands on the left"
    assert all(0 < mark.x < WIDTH and 0 < mark.y < HEIGHT for mark in marks)


def test_the_page_names_its_axes_and_fits_a_phone() -> None:
    page = frontier_page(POINTS, "recipes")
    assert 'name="viewport"' in page
    assert "download: MB under zstd" in page and "1 - mean cosine" in page
    assert "<title>int4: 12.00 MB under zstd, mean cosine 0.98000, lowest 0.9800, 9.00 ms</title>" in page
