"""Memory in the report: its line, its JSON, its place on the page."""

import json
from dataclasses import replace

from edgepack.records.report import LengthMemory, Memory, Report, Verification
from edgepack.reports.page.html import render_html
from edgepack.reports.text import as_json, memory_line
from edgepack.toml_schema import read_table

MEMORY = Memory(
    budget=100_000_000,
    threads=4,
    tokens=256,
    enforced_by="RLIMIT_DATA",
    one_text=19_200_000,
    batch=24_600_000,
    worst=57_600_000,
    lengths=(LengthMemory(tokens=16, peak=19_000_000), LengthMemory(tokens=256, peak=30_000_000)),
)
REPORT = Report(
    bundle="b",
    target="small",
    parts=(),
    archive_bytes=1,
    costs=(),
    verification=Verification(status="passed"),
    memory=MEMORY,
)


def test_the_line_says_what_was_run_and_what_enforced_it() -> None:
    assert memory_line(MEMORY) == (
        "memory: 19.20 MB for one text, 24.60 MB for a batch of 32, 57.60 MB at worst "
        "(4 threads, texts of 256 tokens, all scripts); ran within 100.00 MB, enforced by RLIMIT_DATA"
    )
    assert (
        memory_line(replace(MEMORY, reason="it runs on a GPU")) == "memory: not measured (it runs on a GPU)"
    )


def test_json_brings_it_back() -> None:
    said = json.loads(json.dumps(as_json(REPORT)))
    assert read_table(Memory, said["memory"]) == MEMORY
    assert "memory" not in as_json(replace(REPORT, memory=None))


def test_the_page_draws_it_over_length() -> None:
    page = render_html(REPORT)
    assert '<section id="memory"' in page
    assert "<title>256 tokens: 30.00 MB</title>" in page
    assert page.count("<title>") == 3  # the page's own and two bars
    assert '<section id="memory"' not in render_html(replace(REPORT, memory=None))
    assert "Not measured: it runs on a GPU." in render_html(
        replace(REPORT, memory=replace(MEMORY, reason="it runs on a GPU"))
    )
