"""Figures that pages cite: each is in data that a command wrote, and tables are shown as they are there."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import record
from tests.support.figures import (
    MEASURED,
    bundle_table,
    device_of,
    figures_of_targets,
    names_in,
    numbers_by_name,
    recorded,
    recorded_numbers,
    recorded_table,
    target_table,
    targets,
)
from tests.support.golden import ROOT

from edgepack.models.find.catalogue import load_catalogue

PAGES = (
    "README.md",
    "docs/index.md",
    "docs/benchmarks.md",
    "docs/recipes.md",
    "docs/targets.md",
    "docs/web.md",
    "docs/explanation/comparison.md",
    "docs/howto/choose-recipe.md",
)
FIGURE = re.compile(
    r"(?<![\w.,])\d[\d.,]*(?:\.\d+)? (?:kB|MB|GB|bytes|ms|s|min|%|\u00d7|texts/s|requests/s)(?![\w/])"
    r"|(?<![\w.])\d[\d.]*%|(?<![\w.])0\.9\d{3}(?!\d)"
)
BLOCK = re.compile(r"(?<=<!-- begin )([\w -]+) -->\n(.*?)(?=<!-- end \1 -->)", re.DOTALL)
"""What a page shows of a file, which is written there by ``pytest --update-golden``."""


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def shown(page: str, name: str) -> str:
    """What a block of a page should be."""
    if name == "targets":
        return target_table(first=page == "README.md")
    return bundle_table() if name == "bundles of targets" else recorded_table(name)


def said_on(page: str) -> set[str]:
    return set(FIGURE.findall(text_of(page)))


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
    measured = recorded_numbers()
    config = {
        "30 MB",
        "17 MB",
        "4 MB",
    }  # budgets and limits that target files and pages of keys give as examples
    without = {figure for figure in said_on(page) - known - config if not is_one_of(figure, measured)}
    assert without == set(), f"{page}: benchmarks/record.py writes what a command measures below {MEASURED}"


def test_a_figure_in_a_table_was_measured_of_what_its_row_or_column_names() -> None:
    of = numbers_by_name()
    checked, wrong = 0, []
    for page in PAGES:
        for head, row in table_rows(BLOCK.sub("", text_of(page))):
            titles = [names_in(cell) & set(of) for cell in row if not FIGURE.search(cell)]
            named = next(filter(None, titles), set())
            for title, cell in zip(head, row, strict=True):
                names = named or names_in(title) & set(of)
                for figure in FIGURE.findall(cell) if names else ():
                    checked += 1
                    if not is_one_of(figure, set().union(*(of[each] for each in names))):
                        wrong.append(f"{page}: {figure} is of no {' and no '.join(sorted(names))}")
    assert wrong == []
    assert checked > 50


def table_rows(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Each row of a page's tables, with the table's head."""
    head: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not line.startswith("|"):
            head = []
        elif not head:
            head = cells
        elif not set(line) <= set("|-: "):
            yield head, cells


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_what_was_measured(page: str, update_golden: bool) -> None:
    text = text_of(page)
    written = BLOCK.sub(lambda found: f"{found[1]} -->\n{shown(page, found[1])}", text)
    if update_golden:
        (ROOT / page).write_text(written, encoding="utf-8")
    else:
        assert text == written, f"{page}: --update-golden writes it anew"


def test_each_file_of_measurements_is_a_table_of_a_page() -> None:
    on_pages = {name for page in PAGES for name, _ in BLOCK.findall(text_of(page))}
    assert {file.stem for file in MEASURED.glob("*.json")} == on_pages - {"targets", "bundles of targets"}
    assert {"targets", "bundles of targets"} <= on_pages


def test_no_table_of_the_benchmarks_is_written_by_hand() -> None:
    rest = BLOCK.sub("", text_of("docs/benchmarks.md"))
    assert not [line for line in rest.splitlines() if line.startswith("|")]


@pytest.mark.parametrize("name", sorted(file.stem for file in MEASURED.glob("*.json")))
def test_measurements_say_by_what_where_and_when(name: str) -> None:
    found = recorded(name)
    assert found["command"] or name == "padding", "its script is not kept"
    assert found["machine"] and re.match(r"20\d\d-\d\d-\d\d", found["date"])
    assert all(len(row) == len(found["columns"]) for row in found["rows"])


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


def test_what_a_benchmark_shows_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "speed.py"
    script.write_text(
        "import sys\nfrom rich.console import Console\nfrom rich.table import Table\n"
        "table = Table('', 'ms')\ntable.add_row('[bold]ours[/bold]', sys.argv[1])\nConsole().print('words', table)\n"
    )
    monkeypatch.setattr(record, "MEASURED", tmp_path)
    monkeypatch.setattr(sys, "argv", ["record.py", "speed", "--", str(script), "1.50"])
    monkeypatch.setattr(sys, "path", [*sys.path])
    record.main()
    found = json.loads((tmp_path / "speed.json").read_text())
    assert (found["columns"], found["rows"]) == (["", "ms"], [["ours", "1.50"]])
    assert found["command"] == f"python {script} 1.50"
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", found["date"]) and "threads" in found["machine"]
    monkeypatch.setattr(sys, "argv", ["record.py", "speed", "peaks", "--", str(script), "1.50"])
    with pytest.raises(SystemExit, match="1 tables, for 2 names"):
        record.main()


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
