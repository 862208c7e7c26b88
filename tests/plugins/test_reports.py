"""What plugins add to reports: sections and price lists, and whose fault it is when these are wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.reports.test_render import text_of

from edgepack.bundles.manifest import write_manifest
from edgepack.context import Extension
from edgepack.errors import PluginError
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack.records.bundle import Bundle
from edgepack.records.report import Report, Section, Verification
from edgepack.reports.cost import load_prices, prices_of
from edgepack.reports.page.html import render_html
from edgepack.reports.sections import with_sections
from edgepack.reports.text import as_json

REPORT = Report(
    bundle="b", target="t", parts=(), archive_bytes=None, costs=(), verification=Verification(status="not verified")
)  # fmt: skip
PRICES = """
schema = 1
devices = [7]
[[provider]]
name = "our contract"
dated = "2026-11"
currency = "EUR"
tiers = [["more", 0.002]]
"""


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    """With nothing in it but its manifest, which names no file."""
    folder = tmp_path / "bundle"
    folder.mkdir()
    (folder / "file").write_text("x")
    entry = {"path": "file", "size": 1, "mode": "0644", "part": "runner"}
    entry["sha256"] = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    manifest = {
        "schema": 1, "name": "b", "edgepack": "1", "target": {"name": "t"},
        "model": {"name": "m", "origin": "o", "dimension": 2, "normalize": True, "license": None, "precision": "fp32", "file": "file", "tokenizer": "file"},
        "runtime": None, "runner": {"program": "file"}, "golden": "file", "gate": {}, "files": [entry],
    }  # fmt: skip
    write_manifest(folder, manifest)
    return Bundle(directory=folder, manifest=manifest)


@pytest.fixture
def brings(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], None]:
    """``brings(axis, made)``: a plugin brings that beside what edgepack does."""
    known = load_plugins()

    def register(axis: str, made: Any) -> None:
        theirs = Extension(name="kiosk", summary="What kiosks are", plugin="kiosks", identity="1", make=lambda: made)  # fmt: skip
        own = {asked: known.extensions(asked) for asked in ("report", "prices")}
        monkeypatch.setattr(
            HostContext,
            "extensions",
            lambda self, asked: {**own[asked], **({"kiosk": theirs} if asked == axis else {})},
        )

    return register


def test_a_section_is_in_text_json_and_page(
    bundle: Bundle, context: HostContext, brings: Callable[[str, Any], None]
) -> None:
    assert with_sections(bundle, REPORT, context=context) == REPORT, "edgepack itself brings none"
    brings("report", lambda bundle, report: [("legs", f"4 <of {report.bundle}>"), ["glass", "[red]no"]])
    made = with_sections(bundle, REPORT, context=context)
    rows = (("legs", "4 <of b>"), ("glass", "[red]no"))
    assert made.sections == (Section(name="kiosk", title="What kiosks are", rows=rows),)
    assert json.loads(json.dumps(as_json(made)))["sections"] == [
        {
            "name": "kiosk",
            "title": "What kiosks are",
            "rows": [{"label": "legs", "value": "4 <of b>"}, {"label": "glass", "value": "[red]no"}],
        }
    ]
    text, page = text_of(made), render_html(made)
    for word in ("What kiosks are", "legs", "4 <of b>", "[red]no"):
        assert word in text
    assert ">What kiosks are</h2>" in page and "<td>4 &lt;of b&gt;</td>" in page
    brings("report", lambda bundle, report: ())
    assert with_sections(bundle, REPORT, context=context) == REPORT


def test_rows_are_told_the_bundles_absolute_path(
    bundle: Bundle, context: HostContext, brings: Callable[[str, Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bundle.directory.parent)
    brings("report", lambda bundle, report: [("at", str(bundle.directory)), ("from", str(bundle.archive))])
    near = Bundle(directory=Path("bundle"), manifest=bundle.manifest, archive=Path("bundle.tar.zst"))
    (section,) = with_sections(near, REPORT, context=context).sections
    assert section.rows == (("at", str(bundle.directory)), ("from", f"{bundle.directory}.tar.zst"))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (lambda bundle, report: 1 / 0, "plugin kiosks failed in report kiosk: ZeroDivisionError"),
        (lambda bundle, report: exit(3), "plugin kiosks failed in report kiosk: it ended the program"),
        (lambda bundle: [], "plugin kiosks failed in report kiosk: TypeError"),
        (lambda bundle, report: None, "plugin kiosks: report kiosk returned None, expected a list of rows"),
        (lambda bundle, report: 42, "plugin kiosks: report kiosk returned 42, expected a list of rows"),
        (lambda bundle, report: [42], "plugin kiosks: report kiosk returned the row 42, expected a label"),
        (lambda bundle, report: (1 / 0 for _ in "x"), "plugin kiosks failed in report kiosk: ZeroDivisionError"),
        (lambda bundle, report: [("legs", 4)], r"report kiosk returned the row .'legs', 4., expected a label"),
        (lambda bundle, report: [("legs", "x" * 5_000_000)], "plugin kiosks: report kiosk returned 5,000,000 characters in one cell, at most 10,000"),
        (lambda bundle, report: [("legs", "\udc80")], "plugin kiosks: report kiosk returned .*, which is no text"),
        (lambda bundle, report: iter(lambda: ("legs", "4"), 0), "plugin kiosks: report kiosk returned more than 10000 rows"),
        (lambda bundle, report: ["legs"], "report kiosk returned the row .*, expected a label"),
        (lambda bundle, report: [("legs", str((bundle.directory / "file").write_text("y")))], "plugin kiosks changed the bundle in report kiosk: .*file is damaged"),
    ],
)  # fmt: skip
def test_rows_that_are_wrong_are_the_plugins_fault(
    bundle: Bundle, context: HostContext, brings: Callable[[str, Any], None], rows: Any, words: str
) -> None:
    brings("report", rows)
    with pytest.raises(PluginError, match=words):
        with_sections(bundle, REPORT, context=context)


def test_price_lists_of_plugins_come_after_ours(
    context: HostContext, brings: Callable[[str, Any], None], tmp_path: Path
) -> None:
    assert prices_of(None, context) == load_prices()
    file = tmp_path / "contract.toml"
    file.write_text(PRICES)
    brings("prices", file)
    prices = prices_of(None, context)
    assert [each.name for each in prices.lists] == [
        *(each.name for each in load_prices().lists),
        "our contract",
    ]
    assert prices.devices == load_prices().devices
    assert prices_of(file, context) == load_prices(file), "the user's own table stands alone"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("schema = 1", "schema = 2", "plugin kiosks: price table .*: schema is 2, not 1"),
        ('[["more", 0.002]]', "[]", "plugin kiosks: price table .*must ascend"),
        ("our contract", "AWS, us-east-1", "plugin kiosks: prices kiosk: provider AWS, us-east-1 is in another list"),
    ],
)  # fmt: skip
def test_a_price_list_that_is_wrong_is_the_plugins_fault(
    context: HostContext, brings: Callable[[str, Any], None], tmp_path: Path, old: str, new: str, words: str
) -> None:
    file = tmp_path / "contract.toml"
    file.write_text(PRICES.replace(old, new))
    brings("prices", file)
    with pytest.raises(PluginError, match=words):
        prices_of(None, context)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (Path("/no/such/file.toml"), "plugin kiosks: price table /no/such/file.toml cannot be read"),
        (
            {"provider": []},
            "plugin kiosks: make of prices kiosk returned {'provider': ..}, expected a TOML file",
        ),
        (None, "plugin kiosks: make of prices kiosk returned None, expected a TOML file"),
        (
            "contract.toml",
            "plugin kiosks: make of prices kiosk returned 'contract.toml', expected a TOML file",
        ),
    ],
)
def test_what_is_no_file_is_no_price_list(
    context: HostContext, brings: Callable[[str, Any], None], made: Any, words: str
) -> None:
    brings("prices", made)
    with pytest.raises(PluginError, match=words):
        prices_of(None, context)
