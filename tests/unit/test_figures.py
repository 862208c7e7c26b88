"""Figures that pages cite: each is in the data that a command wrote, or on the page that says by which command it was measured."""

import re
from pathlib import Path

import pytest
from tests.support.figures import device_of, figures_of_targets, target_table, targets
from tests.support.golden import ROOT

from edgepack.models.find.catalogue import load_catalogue

PAGES = (
    "README.md",
    "docs/index.md",
    "docs/targets.md",
    "docs/web.md",
    "docs/explanation/comparison.md",
    "docs/howto/choose-recipe.md",
)
SOURCES = ("docs/benchmarks.md", "docs/runner.md", "docs/recipes.md")
"""Pages on which each table is below its command."""
FIGURE = re.compile(
    r"(?<![\w.,])\d[\d.,]*(?:\.\d+)? (?:kB|MB|GB|bytes|ms|s|min|%|\u00d7|texts/s|requests/s)(?![\w/])"
    r"|(?<![\w.])\d[\d.]*%|(?<![\w.])0\.9\d{3}(?!\d)"
)
BEGIN, END = "<!-- begin targets -->\n", "<!-- end targets -->"


def said_on(page: str) -> set[str]:
    return set(FIGURE.findall((ROOT / page).read_text(encoding="utf-8")))


def numbers(page: str) -> set[float]:
    """All numbers of a page, whose units are in heads of tables."""
    found = re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?", (ROOT / page).read_text(encoding="utf-8"))
    return {float(each.replace(",", "")) for each in found}


def is_one_of(figure: str, measured: set[float]) -> bool:
    """Whether a figure is a measured number, or one rounded to its digits."""
    number = figure.rstrip("%").split()[0].rstrip(".,").replace(",", "")
    digits = len(number.partition(".")[2])
    sizes = (1.0, 1e6) if figure.endswith("MB") else (1.0,)
    return any(f"{each / size:.{digits}f}" == number for each in measured for size in sizes)


def sizes_of_the_catalogue() -> set[str]:
    """Of the models that are pinned with their files, as a whole and their weights."""
    entries = [entry for entry in load_catalogue().entries if entry.files]
    sizes = [size for entry in entries for size in (entry.size, max(file.size for file in entry.files))]
    return {f"{size / 1e6:.1f} MB" for size in sizes}


@pytest.mark.parametrize("page", PAGES)
def test_each_figure_of_a_page_has_a_source(page: str) -> None:
    known = figures_of_targets() | sizes_of_the_catalogue()
    measured = set().union(*map(numbers, SOURCES))
    config = {
        "30 MB",
        "17 MB",
        "4 MB",
    }  # budgets and limits that target files and pages of keys give as examples
    without = {figure for figure in said_on(page) - known - config if not is_one_of(figure, measured)}
    assert without == set(), (
        f"{page}: put it into a file that a command writes (benchmarks/targets.py), or on {SOURCES[0]}"
    )


@pytest.mark.parametrize(("page", "first"), [("README.md", True), ("docs/targets.md", False)])
def test_the_table_of_targets_is_what_was_measured(page: str, first: bool, update_golden: bool) -> None:
    file: Path = ROOT / page
    text = file.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    block, end, after = rest.partition(END)
    assert end, f"{page} has no {BEGIN}"
    if update_golden:
        file.write_text(before + BEGIN + target_table(first=first) + END + after, encoding="utf-8")
        block = target_table(first=first)
    assert block == target_table(first=first), f"{page}: --update-golden writes it anew"


def test_nothing_is_called_the_smallest_or_fastest_that_another_beats() -> None:
    """Of targets for the same device: in their words, and in the README's and index's lines that name them."""
    lines = [
        line for page in ("README.md", "docs/index.md") for line in (ROOT / page).read_text().splitlines()
    ]
    for target, bundles in targets():
        named = [line for line in lines if f"`{target.name}`" in line]
        words = " ".join((target.summary, target.best_for, *named)).lower()
        rivals = [made for other, many in targets() if device_of(other) == device_of(target) for made in many]
        if "smallest" in words:
            assert bundles and bundles[0].download == min(each.download for each in rivals), target.name
        if "fastest" in words:
            fastest = max(each.times_as_fast or 0 for each in rivals)
            assert bundles and bundles[0].times_as_fast == fastest, target.name


def test_a_figure_that_no_source_has_is_found(tmp_path: Path) -> None:
    assert FIGURE.findall(
        "13.50 MB, 0.9971, 13,498,541 bytes, 1,033 texts/s, 6.5 s, 96.5 %, 97%, 1.8 \N{MULTIPLICATION SIGN}; 13.5 MBit"
    ) == [
        "13.50 MB",
        "0.9971",
        "13,498,541 bytes",
        "1,033 texts/s",
        "6.5 s",
        "96.5 %",
        "97%",
        "1.8 \N{MULTIPLICATION SIGN}",
    ]


def test_each_table_of_measurements_is_below_what_measured_it() -> None:
    """Its section names the command, or says that there is none any more."""
    text = (ROOT / SOURCES[0]).read_text(encoding="utf-8")
    _, *sections = re.split(r"^##+ ", text, flags=re.MULTILINE)
    tables = [each for each in sections if re.search(r"^\|", each, re.MULTILINE)]
    command = re.compile(r"benchmarks/\w+\.py|`edgepack \w+|is not kept")
    assert tables and [each.partition("\n")[0] for each in tables if not command.search(each)] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
