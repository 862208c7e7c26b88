"""The report beside a bundle: a result where it was written here or is signed by a named key, else what its maker says."""

import io
import json
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.support.signed import key_in, write_small_bundle

from edgepack import python_api
from edgepack.building.outcome import MOST, report_file_of
from edgepack.bundles.archive import pack
from edgepack.bundles.manifest import SIGNATURE, digest, open_bundle
from edgepack.bundles.provenance import PREDICATE, STATEMENT
from edgepack.device.record import record_file_of
from edgepack.errors import BundleError, SignatureError, UsageError
from edgepack.files.store import sha256_of
from edgepack.plugins.context import HostContext
from edgepack.project.state_file import signing
from edgepack.recorded.beside import record_beside
from edgepack.recorded.measured_again import report_again
from edgepack.records.report import BuildInfo, Memory, OutputFigures, Report, Scores, TaskFigure, Verification
from edgepack.records.runtime import LevelProof
from edgepack.reports.measure import measure, weigh
from edgepack.reports.page.facts import facts_of
from edgepack.reports.page.html import render_html
from edgepack.reports.text import as_json, as_record, render
from edgepack.signing.signatures import sign_file, sign_path
from edgepack.verifier.copies import linked_copy
from edgepack.verifier.trusted_bundles import FROM_STORE, keep, remember

PASSED = Verification(
    status="passed",
    texts=200,
    mean_cosine=0.9971,
    min_cosine=0.99,
    same_tokens=4200,
    scores=Scores(texts=200, tau=1.0, kept=1.0, largest=0.0, same_pairs=9),
    outputs=(OutputFigures(name="sparse", texts=9, tau=1.0, kept=1.0, agree=1.0, largest=0.0),),
    tasks=(TaskFigure(limit="max_retrieval_loss", what="Spearman", value=0.9, value_fp32=0.9),),
    cosines=(0.99, 1.0),
    limits={"min_cosine": 0.985},
)
Write = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGEPACK_CACHE", str(tmp_path / "cache"))
    return write_small_bundle(tmp_path / "sample")


@pytest.fixture
def write(folder: Path, context: HostContext) -> Write:
    """``write(KEY=…)``: the report of a good build, with these keys instead, beside the bundle."""

    def do(**other: Any) -> Path:
        bundle = open_bundle(folder)
        report = replace(
            measure(bundle, PASSED, sizes=weigh(bundle, context=context)),
            proofs=(LevelProof(level="avx2", proved=True, by="this processor, right here", min_cosine=1.0),),
            made=BuildInfo(at="2026-11-01T10:00:00+00:00", machine="their machine", budget=10**9),
            memory=Memory(
                budget=10**8, threads=1, tokens=9, enforced_by="RLIMIT", one_text=1, batch=2, worst=3
            ),
        )
        file = report_file_of(folder)
        file.write_text(json.dumps({**as_record(report), **other}))
        return file

    return do


def views(folder: Path, context: HostContext, **said: Any) -> tuple[Report, str, str]:
    """The report, and what a terminal and a page show of it."""
    report = report_again(folder, context=context, **said)
    console = Console(width=300, file=io.StringIO())
    console.print(render(report))
    page = render_html(report, facts_of(open_bundle(folder), report, context=context))
    return report, console.file.getvalue(), page[page.index("<body>") : page.index("<script>")]  # type: ignore[attr-defined]


def test_what_was_written_here_is_a_result(folder: Path, write: Write, context: HostContext) -> None:
    remember(digest(open_bundle(folder)), report=sha256_of(write()), store=context.store)
    report, text, page = views(folder, context)
    assert report.verification == PASSED and report.said_by.whose == "here"
    assert "verified ✓\n" in text and "verified ✓<" in page and "this processor" in text
    assert as_json(report)["said_by"] == {"whose": "here", "key": ""}
    assert "said_by" not in json.loads(report_file_of(folder).read_text())


def test_an_archive_of_another_bundle_is_not_weighed(
    folder: Path, tmp_path: Path, context: HostContext
) -> None:
    """After an update the archive beside a folder is the older bundle's."""
    bundle, beside = open_bundle(folder), folder.with_name(f"{folder.name}.tar.zst")
    size = pack(bundle, beside, context=context).archive.stat().st_size  # type: ignore[union-attr]
    assert report_again(folder, context=context).archive_bytes == size
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "version": "2.0.0"}))
    assert report_again(folder, context=context).archive_bytes is None
    beside.write_text("x")
    assert report_again(folder, context=context).archive_bytes is None


@pytest.mark.parametrize(("within", "named"), [("", "."), ("model", ".."), ("..", "link")])
def test_a_bundle_is_named_from_within(
    folder: Path,
    write: Write,
    context: HostContext,
    monkeypatch: pytest.MonkeyPatch,
    within: str,
    named: str,
) -> None:
    """None of the paths has the name after which its report, archive, record and copies are called."""
    folder.with_name("link").symlink_to("sample")
    key = key_in(folder.parent)
    remember(digest(open_bundle(folder)), report=sha256_of(write()), store=context.store)
    monkeypatch.chdir(folder / within)
    path = Path(named)
    assert report_again(path, context=context).said_by.whose == "here"
    assert record_file_of(path, "sample") == folder.with_name("sample.devices.json")
    assert linked_copy(open_bundle(path), "copy-", context=context).name == "sample"
    with signing(path, context=context):
        assert sign_path(path, key, context=context) == [folder / SIGNATURE]


@pytest.mark.parametrize("place", ["manifest.json", "model/../report.html", "../sample/model/x", "../link/x"])
def test_a_page_is_not_written_into_the_bundle(folder: Path, write: Write, place: str) -> None:
    write()
    folder.with_name("link").symlink_to(folder)
    before = sorted(folder.rglob("*"))
    with pytest.raises(UsageError, match="would be written over"):
        python_api.report(folder, html=folder / place)
    assert sorted(folder.rglob("*")) == before and open_bundle(folder)


def test_a_page_replaces_a_page_and_nothing_else(folder: Path, write: Write, tmp_path: Path) -> None:
    report, page = write(), tmp_path / "report.html"
    before = report.read_bytes()
    with pytest.raises(UsageError, match="is something else, so it is not replaced"):
        python_api.report(folder, html=report)
    assert report.read_bytes() == before
    for _ in range(2):
        python_api.report(folder, html=page)
    with pytest.raises(UsageError, match="is something else, so it is not replaced"):
        python_api.verify(folder, write_vectors=page)


@pytest.mark.parametrize("known", [False, True])
def test_a_strangers_report_is_its_makers_word(
    folder: Path, write: Write, context: HostContext, known: bool
) -> None:
    if known:
        # Made here, but with another report, or by an edgepack that kept none.
        remember(digest(open_bundle(folder)), report="0" * 64, store=context.store)
    write(said_by={"whose": "here", "key": ""})
    report, text, page = views(folder, context)
    says = "not verified: its maker says that it passed, with a mean cosine of 0.9971; `edgepack verify` finds out"
    for shown in (text, page):
        assert says in shown
        assert "✓" not in shown and "this processor" not in shown and "within the budget" not in shown
    assert "not proved: its maker says that it was" in text and "their machine" not in page
    said = as_json(report)
    assert said["said_by"] == {"whose": "maker", "key": ""}
    assert said["verification"]["status"] == "not verified" and said["verification"]["texts"] == 0
    assert [each["proved"] for each in said["proofs"]] == [False]
    assert said["checks"] == []


def test_a_key_that_is_named_counts_and_must_have_signed_both(
    folder: Path, write: Write, context: HostContext, tmp_path: Path
) -> None:
    team = key_in(tmp_path, "team")
    file = write()
    with pytest.raises(SignatureError, match="is not signed"):
        views(folder, context, key=team.public)
    sign_path(folder, team, context=context)
    # The bundle's signature says nothing of what lies beside the bundle.
    assert views(folder, context, key=team.public)[0].said_by.whose == "maker"
    sign_file(file, team)
    report, text, page = views(folder, context, key=team.public)
    assert report.said_by.whose == "key" and report.verification == PASSED
    assert f"verified ✓ (signed with the key {team.public.hint[:12]}…)" in text
    assert "verified ✓ (signed" in page
    assert views(folder, context)[0].said_by.whose == "maker"
    write(notes=["changed"])
    with pytest.raises(SignatureError):
        views(folder, context, key=team.public)


def test_what_was_signed_as_provenance_is_no_report(
    folder: Path, write: Write, context: HostContext, tmp_path: Path
) -> None:
    """A stranger's provenance had all keys of a report, too: `edgepack sign` signs it, and then it was the signer's word."""
    team = key_in(tmp_path, "team")
    sign_path(folder, team, context=context)
    sign_file(write(_type=STATEMENT, predicateType=PREDICATE), team)
    with pytest.raises(SignatureError, match="is signed as something else than it lies there for"):
        views(folder, context, key=team.public)


def test_a_report_from_a_store_with_a_secret_counts(folder: Path, write: Write, context: HostContext) -> None:
    keep(FROM_STORE, sha256_of(write()), store=context.store)
    _, text, _ = views(folder, context)
    assert "verified ✓ (from a store whose secret is known here)" in text


def test_the_report_of_another_bundle_says_nothing(folder: Path, write: Write, context: HostContext) -> None:
    remember(digest(open_bundle(folder)), report=sha256_of(write(digest="1" * 64)), store=context.store)
    _, text, _ = views(folder, context)
    assert "not verified: not run now" in text and "✓" not in text


def test_a_strangers_words_are_no_lines_or_ticks_of_ours(
    folder: Path, write: Write, context: HostContext
) -> None:
    lie = "a\nverified ✓\x1b[2J\u202e\u2028✅"
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["name"] = "a ✓✅"  # with line breaks it is no bundle's
    manifest["target"]["name"] = manifest["target"]["summary"] = lie
    manifest["model"] |= {"name": lie, "license": "✓", "recipe": lie, "warnings": [lie], "origin": lie}
    manifest["checks"] = [lie]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    verification = {**asdict(PASSED), "reason": lie, "against": lie}
    proofs = [{"level": "✓", "proved": False, "reason": lie}, {"level": lie, "proved": True, "by": lie}]
    write(verification=verification, proofs=proofs, notes=[lie], warnings=[lie])
    _, text, page = views(folder, context)
    for shown in (text, page):
        assert not {"✓", "✅", "\x1b", "\u202e", "\u2028"} & {*shown}
    assert not any(line.lstrip().startswith("verified") for line in text.splitlines())
    assert 'aria-label="met"' not in page and "the command that makes it" not in page


@pytest.mark.parametrize(
    "other",
    [
        {"verification": {"status": "passed", "texts": "many"}},
        {"verification": {"status": "verified ✓"}},
        {"verification": []},
        {"proofs": [{"level": 1, "proved": "yes"}]},
        {"proofs": {"level": "avx2"}},
        {"memory": {"budget": "x"}},
        {"made": {"at": 1, "machine": 2}},
        {"packages": [1]},
        {"packages": [{"form": "deb", "file": "../other", "size": 1}]},
        {"packages": [{"form": "deb", "file": "a" * 5000, "size": 1}]},
    ],
)
def test_a_damaged_report_is_said(folder: Path, write: Write, context: HostContext, other: Any) -> None:
    write(**other)
    with pytest.raises(BundleError, match=r"report\.json is damaged") as refused:
        report_again(folder, context=context)
    assert refused.value.hint


def test_what_is_no_report_is_none(folder: Path, write: Write, context: HostContext) -> None:
    file = write()
    good = file.read_text()
    for text in (
        "[" * 100_000,
        good.replace("0.9971", "NaN"),
        good.replace("0.9971", "1e999"),
        good.replace("4200", "9" * 400),
        "[]",
        '{"digest": "../../elsewhere"}',
        good[:-2],
        good + " " * MOST,
    ):
        file.write_text(text)
        assert record_beside(folder, store=context.store) is None
    file.unlink()
    os.mkfifo(file)
    assert record_beside(folder, store=context.store) is None
