"""The program for Windows as the gate and the proof run it, ``BundleRunner``, under wine."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.sample_program import run_program, vectors_of
from tests.support.windows_sample import ON_WINDOWS

from edgepack.bundles.manifest import open_bundle
from edgepack.errors import BundleError
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.verifier.run import BundleRunner

pytestmark = ON_WINDOWS


def serving(bundle: Bundle) -> Bundle:
    runner: dict[str, Any] = {**bundle.manifest["runner"], "serve": True}
    return replace(bundle, manifest={**bundle.manifest, "runner": runner})


def test_vectors_come_in_order_and_whole(sample: Path, context: HostContext) -> None:
    texts = [
        "a cat",
        "",
        "mat\nwith a line\r\nbreak",
        "\u65e5\u672c",
        'say "hi"',
        "the kitten sat on the mat",
    ]
    expected = vectors_of(run_program(sample, *texts).stdout)
    assert BundleRunner(context=context).embed(open_bundle(sample), texts) == expected


def test_a_folder_whose_name_looks_like_a_variable(copy: Path, context: HostContext) -> None:
    folder = copy.rename(copy.with_name("a=b"))
    assert len(BundleRunner(context=context).embed(open_bundle(folder), ["a cat"])) == 1


def test_a_damaged_bundle_is_told_apart_from_a_failing_program(copy: Path, context: HostContext) -> None:
    bundle = open_bundle(copy)
    (copy / "model/model.onnx").write_bytes(b"")
    with pytest.raises(BundleError, match=r"model/model\.onnx is damaged"):
        BundleRunner(context=context).embed(bundle, ["a"])


def test_a_missing_program_is_a_damaged_bundle(copy: Path, context: HostContext) -> None:
    bundle = open_bundle(copy)
    bundle.program.unlink()
    with pytest.raises(BundleError, match="cannot be read"):
        BundleRunner(context=context).embed(bundle, ["a"])


def test_its_server_is_asked(copy: Path, context: HostContext) -> None:
    bundle = serving(open_bundle(copy))
    BundleRunner(context=context).require_server(bundle)
    (copy / "manifest.json").write_text(json.dumps({}))
    with pytest.raises(BundleError):
        BundleRunner(context=context).require_server(bundle)
