"""Devices in a report: a bundle that nothing here could run is verified on a device by a record that counts, and never before."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from tests.support.device_records import result, verification
from tests.support.signed import key_in, write_small_bundle

from edgepack.building.outcome import report_file_of
from edgepack.bundles.manifest import digest, open_bundle
from edgepack.device.record import record_file_of, write_record
from edgepack.errors import SignatureError
from edgepack.files.store import Store, sha256_of
from edgepack.plugins.context import HostContext
from edgepack.recorded.devices import render_devices
from edgepack.recorded.measured_again import report_again
from edgepack.records.device import DeviceResult, OnDevices
from edgepack.records.report import Verification
from edgepack.reports.measure import measure, weigh
from edgepack.reports.page.facts import facts_of
from edgepack.reports.page.html import render_html
from edgepack.reports.text import as_record, render
from edgepack.signing.keys import PrivateKey
from edgepack.signing.signatures import sign_path
from edgepack.verifier.trusted_bundles import remember

NO_GPU = Verification(status="not verified", reason="not on a GPU (no driver)", texts=200, mean_cosine=0.99)


@pytest.fixture
def folder(tmp_path: Path, context: HostContext) -> Path:
    """A bundle for a GPU, made here, where there is none."""
    folder = write_small_bundle(tmp_path / "sample")
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(
        json.dumps({**manifest, "gate": {"gate": "fast", "min_cosine": 0.985}})
    )
    bundle = open_bundle(folder)
    report = measure(bundle, NO_GPU, sizes=weigh(bundle, context=context))
    report_file_of(folder).write_text(json.dumps(as_record(report)))
    remember(digest(bundle), report=sha256_of(report_file_of(folder)), store=context.store)
    return folder


def shown(folder: Path, context: HostContext, key: PrivateKey | None = None) -> tuple[str, str]:
    """What a terminal and a page show."""
    report = report_again(folder, key=None if key is None else key.public, context=context)
    console = Console(width=300, file=io.StringIO())
    console.print(render(report))
    page = render_html(report, facts_of(open_bundle(folder), report, context=context))
    return console.file.getvalue(), page[page.index("<body>") : page.index("<script>")]  # type: ignore[attr-defined]


def record(folder: Path, *results: DeviceResult, key: PrivateKey | None = None, store: Store) -> Path:
    bundle = open_bundle(folder)
    file = record_file_of(folder, bundle.name)
    write_record(file, bundle, results, key=key, store=store)
    return file


def test_a_record_of_our_own_verifies_it(folder: Path, context: HostContext) -> None:
    for view in shown(folder, context):
        assert "not verified: not on a GPU (no driver)" in view and "✓" not in view
    record(folder, result("rig"), store=context.store)
    for view in shown(folder, context):
        assert "verified on rig ✓" in view and "not on a GPU" not in view
        assert "proved on" in view and "passed, mean cosine 0.9980; A Board 4; 2026-11-24" in view


@pytest.mark.parametrize("change", ["its maker's", "another bundle's", "not verified there", "damaged"])
def test_no_other_record_verifies_it(change: str, folder: Path, tmp_path: Path, context: HostContext) -> None:
    elsewhere = Store(root=tmp_path / "elsewhere")
    if change == "its maker's":
        record(folder, result("rig"), store=elsewhere)
    elif change == "another bundle's":
        other = write_small_bundle(tmp_path / "other" / "sample", b"#!/bin/sh\n# other\n")
        file = record(other, result("rig"), store=context.store)
        file.replace(record_file_of(folder, "sample"))
    elif change == "not verified there":
        record(
            folder, result("rig", status="not verified", verification=NO_GPU, vectors=""), store=context.store
        )
    else:
        record(folder, result("rig"), store=context.store).write_text("{}")
    for view in shown(folder, context):
        assert "not verified: not on a GPU (no driver)" in view
        assert "✓" not in view and "passed, mean" not in view


def test_a_result_by_lower_limits_than_the_bundles_is_no_proof(folder: Path, context: HostContext) -> None:
    """As somebody leaves it who looked closer with `--target`."""
    low = verification(mean_cosine=0.8, limits={"min_cosine": 0.7})
    record(folder, result("rig", verification=low), store=context.store)
    for view in shown(folder, context):
        assert "not verified: not on a GPU (no driver)" in view and "✓" not in view
        assert "passed by lower limits than the bundle" in view and "mean cosine 0.8000 is below" in view


def test_a_key_that_is_named_counts(folder: Path, tmp_path: Path, context: HostContext) -> None:
    team, other = key_in(tmp_path, "team"), key_in(tmp_path, "other")
    sign_path(folder, team, context=context)
    file = record(folder, result("rig"), key=team, store=Store(root=tmp_path / "elsewhere"))
    assert "verified on rig ✓" not in shown(folder, context)[0]
    assert "verified on rig ✓" in shown(folder, context, team)[0]
    file.write_text(file.read_text().replace("rig", "rag"))
    with pytest.raises(SignatureError):
        shown(folder, context, team)
    with pytest.raises(SignatureError):
        shown(folder, context, other)


def test_words_of_a_device_make_no_line_of_ours(folder: Path, context: HostContext) -> None:
    rude = replace(result().device, board="x\nverified ✓ \x1b[2J")
    record(folder, result("rig", device=rude), store=context.store)
    text, _ = shown(folder, context)
    assert "\x1b" not in text and "\nverified ✓ " not in text
    table = io.StringIO()
    Console(width=300, file=table).print(render_devices(OnDevices(results=(result("rig", device=rude),))))
    assert "\x1b" not in table.getvalue() and "verified ✓" not in table.getvalue()


def test_the_table_has_a_column_for_each_device() -> None:
    poor = result(
        "board 2",
        status="not verified",
        verification=verification(status="not verified", reason="no GPU"),
        speed=None,
        golden_cosine=None,
    )
    table = io.StringIO()
    Console(width=200, file=table).print(render_devices(OnDevices(results=(result("board 1"), poor))))
    lines = table.getvalue().splitlines()
    assert next(line for line in lines if "board 1" in line).split() == ["board", "1", "board", "2"]
    assert next(line for line in lines if line.startswith("golden")).split() == [
        "golden",
        "vectors",
        "0.9970",
    ]
    assert "board 1: passed, mean cosine 0.9980" in lines
    assert "board 2: not verified: no GPU" in lines


@pytest.mark.parametrize("own", [False, True])
def test_a_device_s_words_are_no_line_of_ours(
    own: bool, folder: Path, tmp_path: Path, context: HostContext
) -> None:
    """A record's words are its devices' and its maker's, whoever vouches for it."""
    lie = "rig\nverified ✓\x1b[32m"
    found = result(lie)
    device = replace(found.device, machine=f"x\n{lie}", board=lie, distribution=lie)
    wrong = replace(found, device=device, at=f"{lie[:4]}✓\n")
    record(folder, wrong, store=context.store if own else Store(root=tmp_path / "elsewhere"))
    text, page = shown(folder, context)
    for view in (text, page):
        assert "verified ✓" not in view and "\x1b[32m" not in view
        assert own or "✓" not in view
