"""The report as people and programs read it."""

import base64
import dataclasses
import hashlib
import io
import json
import re
import subprocess
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from rich.console import Console
from tests.support.golden import ROOT, in_rows, matches_golden
from tests.support.schema import against

from edgepack.records.report import (
    BuildInfo,
    PackageSize,
    PartSize,
    Report,
    Retrieval,
    Section,
    Speed,
    Verification,
    Visit,
)
from edgepack.records.runtime import LevelProof
from edgepack.records.word import MAKER
from edgepack.reports.cost import Prices, amount, download_costs, load_prices
from edgepack.reports.page.contents import Node
from edgepack.reports.page.facts import PageFacts
from edgepack.reports.page.html import SCRIPTS, render_html
from edgepack.reports.text import as_json, render, status_line

PASSED = Verification(
    status="passed",
    texts=200,
    mean_cosine=0.99123,
    p1_cosine=0.97512,
    min_cosine=0.96987,
    neighbour_agreement=0.935,
    top10_agreement=0.912,
    batch_cosine=0.99999,
    retrieval=Retrieval(
        glosses=2000,
        queries=500,
        recall=0.654,
        recall_fp32=0.658,
        mrr=0.5199,
        mrr_fp32=0.5192,
        top10_agreement=0.946,
    ),
    long_cosine=0.9931,
    same_tokens=4200,
    cosines=(0.96987, 0.98, 0.991, 0.991, 0.9999, 1.0),
    limits={"min_cosine": 0.985, "min_agreement": 0.95, "max_retrieval_loss": 0.01},
)
UNSURE = Verification(status="not verified", reason="an aarch64 bundle does not run on x86_64")
REPORT = Report(
    bundle="all-MiniLM-L6-v2-linux-x86-min",
    target="linux-x86-min",
    parts=(
        PartSize(name="model", files=1, raw=22_900_000, gzip=17_500_000, brotli=16_900_000, zstd=17_100_000),
        PartSize(name="tokenizer", files=1, raw=466_000, gzip=160_000, brotli=148_000, zstd=150_000),
        PartSize(name="runtime", files=1, raw=1_917_856, gzip=720_000, brotli=600_000, zstd=582_394),
        PartSize(name="runner", files=58, raw=17_300_000, gzip=6_100_000, brotli=5_000_000, zstd=4_800_000),
        PartSize(name="manifest", files=1, raw=9_120, gzip=2_801, brotli=2_500, zstd=2_600),
    ),
    archive_bytes=22_345_678,
    costs=download_costs(22_345_678, load_prices()),
    verification=PASSED,
    notes=("gzip -9 of each file by itself",),
    digest="0123456789abcdef" * 4,
    proofs=(
        LevelProof(level="avx2", proved=True, by="this CPU, features restricted", min_cosine=0.9997),
        LevelProof(level="amx", proved=False, reason="neither this CPU nor qemu has it"),
    ),
    prices=load_prices().lists,
    made=BuildInfo(
        at="2026-11-22T12:00:00+00:00", machine="A processor, 2 threads, Linux x86_64", budget=30_000_000
    ),
    about=(("model", "sentence-transformers/all-MiniLM-L6-v2"), ("recipe", "int8 <b>")),
    source_bytes=90_868_376,
)


DEB = PackageSize(form="deb", file="x.deb", size=50_000_000, costs=download_costs(50_000_000, load_prices()))


def text_of(report: Report, *, width: int = 110) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width, highlight=False).print(render(report))
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def test_the_text_is_as_it_was_approved(update_golden: bool) -> None:
    matches_golden("report.txt", text_of(REPORT), update=update_golden)


def test_the_json_is_as_it_was_approved(update_golden: bool) -> None:
    matches_golden("report.json", in_rows(json.loads(json.dumps(as_json(REPORT)))), update=update_golden)


FACTS = PageFacts(
    contents=Node(
        name="b",
        bytes=100,
        parts=(
            Node(
                name="model",
                bytes=90,
                what="model.ort",
                parts=(Node(name="w", bytes=90, what="int8 [9, 10]"),),
            ),
            Node(name="</script>", bytes=10),
        ),
    ),
    passes=(("pool", "", "Pooling."), ("int8-dynamic", "steps=7.0", "Dynamic int8.")),
    components=(("abseil", "1.0", "Apache-2.0"), ("<odd>", "", "")),
    provenance=(("made", "2026-11-22 12:00:00 UTC on a machine"),),
    command="edgepack bundle --target linux-x86-min 'a model'",
    model="sentence-transformers/all-MiniLM-L6-v2",
)


def test_the_page_is_as_it_was_approved(update_golden: bool) -> None:
    head, _, body = render_html(REPORT, FACTS).partition("</style>\n")
    body = body.partition("<script>")[0]
    assert f"<title>{REPORT.bundle}</title>" in head and "default-src 'none'" in head
    matches_golden("report.html", body.replace("<tr>", "\n<tr>"), update=update_golden)


def test_the_json_is_as_its_schema_says() -> None:
    schema = json.loads((ROOT / "docs/schemas/report.json").read_text())
    whole = dataclasses.replace(
        REPORT,
        packages=(DEB,),
        sections=(Section(name="kiosk", title="On a kiosk", rows=(("legs", "4"),)),),
        visits=(Visit(name="cold", files=1, raw=3, gzip=2, brotli=1),),
        proofs=(LevelProof(level="avx2", proved=True, by="this CPU", min_cosine=1.0),),
    )
    unsure = dataclasses.replace(REPORT, verification=UNSURE, archive_bytes=None, costs=())
    for report in (REPORT, whole, unsure):
        assert [*against(schema, json.loads(json.dumps(as_json(report))))] == []
    said = as_json(whole)
    for wrong in (
        {**said, "colour": "red"},
        {key: value for key, value in said.items() if key != "checks"},
        {**said, "digest": "0"},
        {**said, "schema": 2},
        {**said, "verification": {**said["verification"], "texts": -1}},
        {**said, "proofs": [{**said["proofs"][0], "proved": 1}]},
        {**said, "sections": {}},
    ):
        assert len([*against(schema, json.loads(json.dumps(wrong)))]) == 1


def test_a_verification_comes_back_from_the_json() -> None:
    read = json.loads(json.dumps(as_json(REPORT)))
    found = read["verification"]
    lists = ("cosines", "outputs", "tasks", "lengths", "levels", "said")
    restored = {"retrieval": Retrieval(**found["retrieval"]), **{name: tuple(found[name]) for name in lists}}
    assert Verification(**{**found, **restored}) == PASSED
    assert read["total"]["raw"] == REPORT.raw_bytes == 42_592_976
    assert read["digest"] == REPORT.digest


def test_a_bundle_that_did_not_run_is_never_called_passed() -> None:
    unsure = dataclasses.replace(REPORT, verification=UNSURE, proofs=())
    for shown in (text_of(unsure), render_html(unsure), status_line(UNSURE)):
        assert "not verified: an aarch64 bundle does not run on x86_64" in shown
        assert "✓" not in shown
        assert "cosine" not in shown
    assert as_json(unsure)["verification"]["status"] == "not verified"


def test_no_figure_is_cut_on_a_narrow_terminal() -> None:
    narrow = text_of(REPORT, width=80)
    for figure in ("22.90", "17.30", "22,345,678 bytes", "USD"):
        assert figure in narrow
    assert "…" not in narrow


def test_markup_in_a_name_is_only_text() -> None:
    odd = dataclasses.replace(REPORT, bundle="[red]<script>alert(1)</script>")
    assert "[red]<script>" in text_of(odd)
    assert "<script>alert" not in render_html(odd)
    assert "&lt;script&gt;" in render_html(odd)


def test_the_page_asks_nobody_for_anything() -> None:
    outside: list[str] = []
    open_tags: list[str] = []
    wanted: list[str] = []
    there: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            outside.extend(f"{tag} {name}" for name, _ in attrs if name in ("src", "srcset", "data"))
            outside.extend(
                value or "" for name, value in attrs if name == "href" and not (value or "").startswith("#")
            )
            wanted.extend((value or "")[1:] for name, value in attrs if name == "href")
            there.extend(value or "" for name, value in attrs if name == "id")
            outside.extend(tag for _ in [0] if tag in ("link", "iframe", "img", "object"))
            if tag not in ("meta", "br", "input"):
                open_tags.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert open_tags.pop() == tag

    page = render_html(REPORT, FACTS)
    Reader().feed(page)
    assert outside == []
    assert set(wanted) <= set(there) and len(there) == len(set(there))
    assert open_tags == []
    assert "url(" not in page and "@import" not in page
    assert "prefers-color-scheme: dark" in page


def test_a_report_without_archive_or_costs_still_renders() -> None:
    bare = dataclasses.replace(REPORT, archive_bytes=None, costs=())
    for shown in (text_of(bare), render_html(bare)):
        assert "no archive" in shown
        assert "USD" not in shown
        assert "22.90" in shown


def test_each_package_is_priced_beside_the_archive() -> None:
    flat = re.compile(r"flat rate, 0\.05 per GB +2026-05 +([\d.,]+) ")
    alone = text_of(REPORT)
    assert len(flat.findall(alone)) == 1 and "\narchive (.tar.zst)\n" not in alone
    both = dataclasses.replace(REPORT, packages=(DEB,))
    shown = text_of(both).partition("cost of one download per device")[2]
    assert re.search(r"\narchive \(\.tar\.zst\)\n.*\ndeb\n", shown, re.S)
    assert flat.findall(shown) == ["1.12", "2.50"]
    assert re.search(">archive .*>1.12<.*>deb</th>.*>2.50<", render_html(both))
    assert as_json(both)["packages"][0]["costs"][0]["bytes_total"] == 50_000_000_000


def scripts(page: str) -> list[str]:
    return re.findall(r"<script[^>]*>(.*?)</script>", page, re.S)


def test_the_one_script_is_allowed_by_its_digest_and_no_name_ends_the_block() -> None:
    odd = dataclasses.replace(REPORT, packages=(PackageSize(form="deb", file="</script><b>.deb", size=1),))
    page = render_html(odd, FACTS)
    data, tree, script = scripts(page)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in page
    read = json.loads(data)
    assert ["</script><b>.deb", 1] in read["sizes"] and ["archive (.tar.zst)", 22_345_678] in read["sizes"]
    assert read["prices"][0]["tiers"][-1] == [None, 0.05]
    assert json.loads(tree)[3][1] == ["</script>", 10, "", []]
    without = render_html(dataclasses.replace(REPORT, prices=()))
    assert 'id="calculator' not in without and 'id="treemap' not in without


def cards_of(page: str) -> dict[str, tuple[str, ...]]:
    found = re.findall(r"<li><h3>(.*?)</h3><strong>(.*?)</strong>(.*?)</li>", page)

    def plain(html: str) -> str:
        return re.sub("<.*?>", "", html)

    return {
        what: (plain(value), *map(plain, re.findall("<p>(.*?)</p>", said))) for what, value, said in found
    }


def test_the_page_shows_what_matters_first() -> None:
    page = render_html(REPORT, FACTS)
    assert cards_of(page) == {
        "Download": ("22.35 MB", "limit 30 MB ✓", "usual stack 96.69"),
        "On the device": ("42.59 MB", "5 parts", "usual stack 111.44"),
        "Mean cosine": ("0.9912", "limit ≥ 0.985 ✓", "lowest 0.9699"),
        "Recall@10": ("0.6540", "limit fp32 0.6580 - 0.01 ✓"),
    }
    assert "int8 &lt;b&gt;" in page and "not proved: neither this CPU nor qemu has it" in page
    unknown = cards_of(render_html(REPORT, PageFacts(model="another/model")))
    assert unknown["Download"] == ("22.35 MB", "limit 30 MB ✓", "usual stack 96.69")


def test_speed_and_memory_are_of_this_very_bundle_or_not_there() -> None:
    """Of the device where it said them, of the machine that built it where that was asked."""
    built = dataclasses.replace(REPORT, speed=Speed(threads=1, tokens=32, texts_per_second=1290.4))
    shown = cards_of(render_html(built, FACTS))
    assert shown["Speed"] == ("1,290 texts/s", "1 thread, 32 tokens", "measured where it was built")
    assert "Memory" not in shown, "the system did not tell"
    assert "speed here: 1,290 texts/s of 32 tokens on 1 thread\n" in text_of(built)
    device = Speed(peak_mb=26.2, texts_per_second=290.2, tokens=32, threads=2)
    shown = cards_of(render_html(built, dataclasses.replace(FACTS, device=device)))
    assert shown["Memory"] == ("26.2 MB", "at its highest", "measured on the device")
    assert shown["Speed"] == ("290 texts/s", "2 threads, 32 tokens", "measured on the device")
    assert not {"Speed", "Memory"} & cards_of(render_html(REPORT, FACTS)).keys()
    assert '<tr class=own><th scope="row">linux-x86-min</th>' in render_html(REPORT, FACTS)


def test_figures_of_a_target_are_not_those_of_a_bundle_with_other_settings() -> None:
    assert REPORT.made is not None
    changed = dataclasses.replace(REPORT.made, settings=("model.recipe=fp32",))
    for made in (changed, None):
        page = render_html(dataclasses.replace(REPORT, made=made), FACTS)
        assert "1,033" not in page and "Download, MB" in page


def test_a_limit_that_is_not_met_is_marked() -> None:
    failed = dataclasses.replace(PASSED, status="failed", reason="too far", mean_cosine=0.9, retrieval=None)
    shown = cards_of(render_html(dataclasses.replace(REPORT, verification=failed), FACTS))
    assert shown["Mean cosine"][1] == "limit ≥ 0.985 ✗"
    assert shown["Same neighbour"][:2] == ("93.5%", "limit ≥ 95% ✗")


def test_what_the_web_page_sends_are_visits() -> None:
    visits = (Visit(name="cold", files=3, raw=30_000_000, gzip=20_000_000, brotli=10_000_000),)
    page = render_html(dataclasses.replace(REPORT, visits=visits), FACTS)
    assert "First visit" in cards_of(page) and "Cost per first visit, in USD, by number of visits" in page
    assert json.loads(scripts(page)[0])["sizes"] == [
        ["brotli", 10_000_000],
        ["gzip", 20_000_000],
        ["not compressed", 30_000_000],
    ]
    assert "<h3>What a visit downloads, in MB</h3>" in page
    claimed = render_html(dataclasses.replace(REPORT, visits=visits, said_by=MAKER), FACTS)
    assert "<h3>What a visit downloads, in MB, as its maker says</h3>" in claimed


def run_node(code: str) -> object:
    page = files("edgepack.reports.page")
    script = "".join((page / name).read_text() for name in SCRIPTS)
    done = subprocess.run(["node", "-e", script + code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.tools("node")
def test_the_pages_costs_are_the_terminals() -> None:
    """By its own function, to the cent, for numbers of bytes in every tier and for several updates."""
    data = json.loads(scripts(render_html(REPORT))[0])
    sent = [10**power * digit for power in range(6, 18) for digit in (1, 3, 7)]
    code = f"const data = {json.dumps(data)}; const sent = {sent};"
    code += """
      const bills = data.prices.map((list) => sent.map((bytes) => [1, 12].map((updates) => {
        const elements = { devices: { value: 0 }, updates: { value: updates }, provider: { value: 0 }, encoding: { value: 0 },
          "devices-said": {}, "updates-said": {}, due: {}, sent: {} };
        calculate({ prices: [list], sizes: [["archive", bytes]] }, { elements: { namedItem: (name) => elements[name] } });
        return elements.due.value;
      })));
      console.log(JSON.stringify(bills));"""
    ours = [
        [[f"{amount(each, size) * updates:,.2f} {each.currency}" for updates in (1, 12)] for size in sent]
        for each in REPORT.prices
    ]
    assert run_node(code) == ours


@pytest.mark.tools("node")
def test_halves_of_a_cent_are_rounded_as_the_terminal_does() -> None:
    dues = [0.0, 0.125, 0.375, 0.625, 0.875, 1.125, 1234.625, 0.005, 0.015, 0.035, 1e6 + 0.125, 999_999.995]
    assert run_node(f"console.log(JSON.stringify({dues}.map(money)))") == [f"{due:,.2f}" for due in dues]


@pytest.mark.tools("node")
def test_areas_of_the_treemap_are_as_the_bytes_and_fill_it() -> None:
    sizes = [23_062_144, 1_145_272, 441_256, 404_017, 41_795, 7_379, 1]
    boxes = run_node(f"console.log(JSON.stringify(squarify({sizes}, 1000, 400)))")
    assert isinstance(boxes, list)
    areas = [width * height for _, _, width, height in boxes]
    assert areas == pytest.approx([size * 400_000 / sum(sizes) for size in sizes], rel=1e-6)
    for x, y, width, height in boxes:
        assert min(x, y) >= 0 and x + width <= 1000.001 and y + height <= 400.001
    for at, (x, y, width, height) in enumerate(boxes):
        for left, top, across, down in boxes[:at]:
            over = min(x + width, left + across) - max(x, left), min(y + height, top + down) - max(y, top)
            assert min(over) < 1e-6


def test_money_of_several_currencies_says_which() -> None:
    euros = dataclasses.replace(REPORT.prices[0], name="Elsewhere", currency="EUR")
    prices = Prices(lists=(*REPORT.prices, euros), devices=(1000,))
    costs = download_costs(22_345_678, prices)
    shown = text_of(dataclasses.replace(REPORT, costs=costs))
    assert "per device, by number of devices\n" in shown and " EUR\n" in shown and " USD\n" in shown
    assert "per device, in USD, by" in text_of(REPORT)


def test_the_budget_stands_beside_the_archive() -> None:
    assert "(22,345,678 bytes), within the budget of 30.00 MB\n" in text_of(REPORT)
    assert "budget" not in text_of(dataclasses.replace(REPORT, made=None))


def test_the_page_says_where_a_bundle_stands_among_recipes() -> None:
    recipes = (("int8", 20_597_190, 0.998875), ("int8-compact", 9_942_174, 0.9915))
    page = render_html(REPORT, dataclasses.replace(FACTS, recipes=recipes))
    _, _, drawn = page.partition("Recipes for this target, MB")
    assert drawn, "it is drawn"
    order = [drawn.index(each) for each in ("this bundle", "int8-compact", ">int8<")]
    assert order == sorted(order)
    assert "9.94, cosine 0.9915" in drawn and "20.60, cosine 0.9989" in drawn
    for fewer in (recipes[:1], ()):
        assert "Recipes for this target" not in render_html(REPORT, dataclasses.replace(FACTS, recipes=fewer))
