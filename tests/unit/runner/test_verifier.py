"""A bundle's program as the gate and the proof run it: ``BundleRunner``."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.sample_program import run_program, vectors_of

from edgepack.errors import BundleError
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.verifier.run import BundleRunner

pytestmark = pytest.mark.tools("c++", "python", "env")


@pytest.fixture
def runner(shared_context: HostContext) -> BundleRunner:
    """On the user's cache, where the wine is that `edgepack fetch` brought."""
    return BundleRunner(context=shared_context, trusted=True)


def bundle_of(folder: Path) -> Bundle:
    """With a server, on devices that have the C++ runtime, of which the stock library asks."""
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    links = [str(path.resolve()) for path in folder.rglob("*") if path.is_symlink()]
    manifest["target"].setdefault("platform", {})["has"] = ["/usr/lib", *links]
    manifest["runner"]["serve"] = True
    return Bundle(directory=folder, manifest=manifest)


def test_vectors_come_in_order_and_whole(copy: Path, runner: BundleRunner) -> None:
    texts = ["a cat", "", "mat\nwith a line\r\nbreak", "日本", 'say "hi"', "the kitten sat on the mat"]
    expected = vectors_of(run_program(copy, *texts).stdout)
    assert runner.embed(bundle_of(copy), texts) == expected


def test_a_folder_whose_name_looks_like_a_variable(copy: Path, runner: BundleRunner) -> None:
    folder = copy.rename(copy.with_name("a=b"))
    assert len(runner.embed(bundle_of(folder), ["a cat"])) == 1


def test_a_damaged_bundle_is_told_apart_from_a_failing_program(copy: Path, runner: BundleRunner) -> None:
    bundle = bundle_of(copy)
    (copy / "model/model.onnx").write_bytes(b"")
    with pytest.raises(BundleError, match=r"model/model\.onnx is damaged"):
        runner.embed(bundle, ["a"])


def test_a_missing_program_is_a_damaged_bundle(copy: Path, runner: BundleRunner) -> None:
    bundle = bundle_of(copy)
    bundle.program.unlink()
    with pytest.raises(BundleError, match="cannot be read"):
        runner.embed(bundle, ["a"])


def test_its_server_is_asked(copy: Path, runner: BundleRunner) -> None:
    bundle = bundle_of(copy)
    runner.require_server(bundle)
    (copy / "manifest.json").write_text(json.dumps({}))
    with pytest.raises(BundleError):
        runner.require_server(bundle)
