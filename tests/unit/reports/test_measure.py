"""What a bundle weighs: by part, by encoding, and measured once."""

import gzip
import importlib
import json
import random
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import brotli
import pytest
import zstandard

from edgepack.bundles.archive import pack
from edgepack.bundles.manifest import file_entry
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.report import Report, Verification
from edgepack.records.word import MAKER
from edgepack.reports import compressed
from edgepack.reports.measure import measure, weigh

PASSED = Verification(status="passed", texts=200, mean_cosine=0.99, p1_cosine=0.98, min_cosine=0.97)

CONTENT: dict[str, tuple[str, bytes]] = {
    "embed": ("runner", b"program" * 1000),
    "_internal/python.zip": ("runner", random.Random(1).randbytes(5000)),
    "model/model.ort": ("model", b"weights " * 5000),
    "model/tokenizer.json": ("tokenizer", b'{"vocab": {}}'),
    "lib/libonnxruntime.so.1.21.0": ("runtime", b"kernels" * 3000),
    "golden.json": ("golden", b"{}"),
    "LICENSES/mit.txt": ("licenses", b"MIT"),
}


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    folder = tmp_path / "bundle"
    entries = []
    for name, (part, content) in CONTENT.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        entries.append(file_entry(path, root=folder, part=part))
    (folder / "_internal" / "same").symlink_to("python.zip")
    entries.append(file_entry(folder / "_internal" / "same", root=folder, part="runner"))
    model = {"dimension": 8, "pooling": "cls", "normalize": True}
    manifest = {
        "schema": 1,
        "name": "tiny",
        "target": {"name": "tiny-target"},
        "model": {**model, "pooling_from": "family", "warnings": ["a guess"]},
        "files": entries,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    archive = tmp_path / "bundle.tar.zst"
    archive.write_bytes(b"z" * 20_000_000)
    return Bundle(directory=folder, manifest=manifest, archive=archive)


def measured(bundle: Bundle, context: HostContext, verification: Verification = PASSED) -> Report:
    return measure(bundle, verification, sizes=weigh(bundle, context=context))


@pytest.fixture
def report(bundle: Bundle, context: HostContext) -> Report:
    return measured(bundle, context)


def test_every_byte_is_in_exactly_one_part(bundle: Bundle, report: Report) -> None:
    names = [part.name for part in report.parts]
    assert names == ["model", "tokenizer", "runtime", "runner", "licenses", "golden", "manifest"]
    on_disk = [path for path in bundle.directory.rglob("*") if path.is_file() and not path.is_symlink()]
    assert report.raw_bytes == sum(path.stat().st_size for path in on_disk)
    assert sum(part.files for part in report.parts) == len(on_disk)


def test_compressed_sizes_are_those_of_the_real_encoders(report: Report) -> None:
    model = report.parts[0]
    content = CONTENT["model/model.ort"][1]
    assert model.raw == len(content)
    assert model.gzip == len(gzip.compress(content, 9, mtime=0))
    assert model.brotli == len(brotli.compress(content, quality=11, lgwin=24))
    assert model.zstd == len(zstandard.ZstdCompressor(level=19).compress(content))


def test_what_the_vectors_rest_on_is_said(bundle: Bundle, context: HostContext) -> None:
    found = measure(bundle, Verification(status="passed"), sizes=weigh(bundle, context=context))
    assert found.warnings == ("a guess",)
    word = measure(bundle, found.verification, sizes=weigh(bundle, context=context), said_by=MAKER)
    assert word.warnings == ("its maker says: a guess",)
    assert "vectors: 8 dimensions, cls pooling, normalized (from: family)" in found.notes
    older = {key: bundle.manifest["model"][key] for key in ("dimension", "pooling", "normalize")}
    before = replace(bundle, manifest={**bundle.manifest, "model": older})
    found = measure(before, Verification(status="passed"), sizes=weigh(bundle, context=context))
    assert found.warnings == ()
    assert "vectors: 8 dimensions, cls pooling, normalized" in found.notes


def test_emulation_is_said(bundle: Bundle, context: HostContext) -> None:
    target = {"name": "other", "platform": {"arch": "s390x"}}
    elsewhere = replace(bundle, manifest={**bundle.manifest, "target": target})
    assert "under an emulator of s390x" in measured(elsewhere, context).notes[0]
    unverified = Verification(status="not verified", reason="no emulator")
    assert "emulator" not in measured(elsewhere, context, unverified).notes[0]


def test_what_cannot_be_compressed_is_sent_plain(report: Report) -> None:
    runner = next(part for part in report.parts if part.name == "runner")
    incompressible = len(CONTENT["_internal/python.zip"][1])
    assert incompressible < runner.zstd < incompressible + 200
    with ThreadPoolExecutor(1) as encoders:
        assert compressed.compress(b"x", encoders, zstd=lambda: 10) == compressed.CompressedSize(
            raw=1, gzip=1, brotli=1, zstd=1
        )


def test_costs_are_those_of_the_archive(bundle: Bundle, report: Report, context: HostContext) -> None:
    assert report.archive_bytes == 20_000_000
    flat = [cost for cost in report.costs if cost.provider.startswith("flat")]
    assert [cost.devices for cost in flat] == [1_000, 100_000, 1_000_000]
    assert [cost.amount for cost in flat] == pytest.approx([1.0, 100.0, 1_000.0])
    without = measured(replace(bundle, archive=None), context)
    assert without.archive_bytes is None
    assert without.costs[0].bytes_total == 1_000 * sum(part.zstd for part in without.parts)
    assert "all files with zstd" in " ".join(without.notes)


def test_a_content_is_compressed_once(
    bundle: Bundle, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = measured(bundle, context)

    def again(content: bytes, encoders: Executor, **known: object) -> compressed.CompressedSize:
        raise AssertionError("compressed again")

    monkeypatch.setattr(compressed, "compress", again)
    assert measured(bundle, context) == first
    (bundle.directory / "manifest.json").write_text(json.dumps({**bundle.manifest, "name": "other"}))
    with pytest.raises(AssertionError, match="compressed again"):
        measured(bundle, context)


def test_a_large_file_is_compressed_once_for_the_archive_and_the_report(
    bundle: Bundle, context: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("edgepack.reports.compressed", "edgepack.bundles.archive"):
        monkeypatch.setattr(importlib.import_module(module), "LARGE", 10_000)
    before = weigh(bundle, context=context)
    content = CONTENT["model/model.ort"][1]
    assert before["model/model.ort"].zstd == len(zstandard.ZstdCompressor(level=19).compress(content))
    frames = {path.name for path in (context.store.root / "zstd-frame").iterdir()}
    assert len(frames) == 2  # the model's and the library's
    made = pack(replace(bundle, archive=None), tmp_path / "made.tar.zst", context=context).archive
    assert made is not None
    raw = [zstandard.ZstdDecompressor().decompress(path.read_bytes()) for path in frames_of(context, frames)]
    assert sorted(raw) == sorted([content, CONTENT["lib/libonnxruntime.so.1.21.0"][1]])
    assert all(path.read_bytes() in made.read_bytes() for path in frames_of(context, frames))


def frames_of(context: HostContext, names: set[str]) -> list[Path]:
    return [context.store.root / "zstd-frame" / name / "frame.zst" for name in names]


def test_sizes_are_made_again_by_another_version_of_a_library(
    bundle: Bundle, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    weigh(bundle, context=context)
    kept = len(list((context.store.root / "wire-sizes").iterdir()))
    monkeypatch.setattr(brotli, "__version__", "0.0")
    weigh(bundle, context=context)
    assert len(list((context.store.root / "wire-sizes").iterdir())) == 2 * kept


def test_without_a_context_sizes_are_kept_in_the_user_s_cache(
    bundle: Bundle, report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEPACK_CACHE", str(tmp_path / "cache"))
    assert measure(bundle, PASSED, sizes=weigh(bundle)) == report
    assert len(list((tmp_path / "cache" / "wire-sizes").iterdir())) == len(CONTENT) + 1


def test_large_files_take_a_quicker_brotli_and_huge_ones_quicker_encoders() -> None:
    assert compressed.levels_for(4_000_000) == compressed.Levels(gzip=9, brotli=11, zstd=19)
    assert compressed.levels_for(4_000_001) == compressed.Levels(gzip=9, brotli=7, zstd=19)
    assert compressed.levels_for(100_000_000) == compressed.Levels(gzip=9, brotli=7, zstd=19)
    assert compressed.levels_for(100_000_001) == compressed.Levels(gzip=6, brotli=6, zstd=12)


def test_what_huge_files_are_compressed_with_is_said(
    bundle: Bundle, report: Report, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not any("zstd -12" in note for note in report.notes)
    for module in (compressed, importlib.import_module("edgepack.reports.measure")):
        monkeypatch.setattr(module, "HUGE", 10_000)
    found = measured(bundle, context)
    assert "gzip -6, brotli 6 and zstd -12 of files above 0.01 MB" in found.notes
    content = CONTENT["model/model.ort"][1]
    assert found.parts[0].zstd == len(zstandard.ZstdCompressor(level=12).compress(content))
    assert found.parts[0].gzip == len(gzip.compress(content, 6, mtime=0))
