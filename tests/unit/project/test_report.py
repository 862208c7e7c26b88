"""The page of a project's build."""

import re
from pathlib import Path

import pytest

from edgepack.errors import BudgetError, UsageError
from edgepack.project import report
from edgepack.project.jobs import Result
from edgepack.project.report import Figures, render_page, require_form, write_report
from edgepack.records.word import HERE, Word


def bundle(label: str, state: str = "made") -> Result:
    return Result(label=label, state=state, seconds=2.5, path=Path(label))  # type: ignore[arg-type]


def figures(size: int, mean: float, lowest: float, status: str = "passed", word: Word = HERE) -> Figures:
    return Figures(
        digest="0" * 64,
        archive_bytes=size,
        mean_cosine=mean,
        min_cosine=lowest,
        status=status,
        said_by=word,
    )


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> str:
    known = {
        "large": figures(20_000_000, 0.9989, 0.9950),
        "small": figures(13_000_000, 0.9971, 0.9850),
        "theirs": figures(1_000_000, 0.5, 0.4, word=Word(whose="maker", key="")),
        "other": figures(15_000_000, 0.9960, 0.9900, status="not verified"),
    }
    monkeypatch.setattr(report, "figures_of", lambda result: known.get(result.label, Figures()))
    over = BudgetError("the archive has 56 MB, <b> allows 30.0 MB", hint="a smaller recipe")
    failed = Result(label="broken", state="failed", seconds=1.0, error=over)
    made = [bundle("large"), bundle("small", "up to date"), bundle("theirs"), bundle("other"), failed]
    return render_page(made, seconds=31)


def test_cards_say_what_counts_here(page: str) -> None:
    cards = dict(re.findall(r"<li><h3>([^<]*)</h3><strong>(.*?)</strong>", page))
    assert cards == {
        "Bundles": "5",
        "Verified": "2 <small>of 5</small>",
        "Archives": "48.00 <small>MB</small>",
        "Mean cosine": "0.9960",
    }
    assert "of any text 0.9850" in page, "what a maker says of its bundle is no figure of this build"
    assert "3 made" in page and "1 up to date" in page and "1 failed" in page


def test_failures_come_first_with_what_to_do(page: str) -> None:
    assert page.index("Failed (1)") < page.index("Bundles (4)") < page.index("Archive, MB")
    assert "&lt;b&gt; allows 30.0 MB" in page and "<td>a smaller recipe</td>" in page
    assert re.findall(r'<a href="#(\w+)">', page) == ["failed", "bundles", "sizes"]


def test_each_bundle_is_verified_or_not(page: str) -> None:
    rows = dict(re.findall(r'<tr><th scope="row">(\w+)</th>(.*?)</tr>', page[page.index("Bundles (4)") :]))
    assert {label: 'class="yes"' in cells for label, cells in rows.items()} == {
        "large": True,
        "small": True,
        "theirs": False,
        "other": False,
    }


def test_bars_have_one_scale_and_the_smallest_first(page: str) -> None:
    drawn = re.findall(r'<th scope="row">(\w+)</th><td><i style="width:([\d.]+)%"></i></td>', page)
    assert drawn == [("theirs", "5.00"), ("small", "65.00"), ("other", "75.00"), ("large", "100.00")]


def test_a_project_of_nothing_has_a_page() -> None:
    assert "0 bundles in 1 s: none" in render_page([], seconds=1.4)


@pytest.mark.parametrize("name", ["report.html", "report.json"])
def test_a_report_replaces_a_report_and_nothing_else(tmp_path: Path, name: str) -> None:
    """A mistyped path may be that of a bundle's manifest, of a model's settings or of a bundle's own report."""
    file = tmp_path / name
    require_form(file)
    failed = Result(label="broken", state="failed", seconds=1.0, error=BudgetError("too large"))
    for results in ([], [failed]):
        write_report(file, results, seconds=1)
        require_form(file)
    for other in ('{"schema": 1, "name": "a bundle"}', '{"hidden_size": 384}', "[project]", "PK"):
        file.write_text(other)
        with pytest.raises(UsageError, match="is something else, so it is not replaced"):
            require_form(file)
    file.write_text("")
    require_form(file)
