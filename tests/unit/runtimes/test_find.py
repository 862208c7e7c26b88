"""Which library is meant: itself, or that of a bundle."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.bundles.conftest import assembled, bundle, model, runner, runtime, sound, source, target

from edgepack.bundles.archive import pack
from edgepack.errors import BundleError, UsageError
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.runtimes import find as known

__all__ = ["assembled", "bundle", "model", "runner", "runtime", "sound", "source", "target"]

pytestmark = pytest.mark.tools("gcc", may=("env", "setpriv", "strip"))


def test_a_library_is_itself(tmp_path: Path) -> None:
    assert (
        known.library_in(tmp_path / "libonnxruntime.so", work_dir=tmp_path) == tmp_path / "libonnxruntime.so"
    )


def test_the_library_of_a_bundle_and_of_its_archive(
    bundle: Bundle, context: HostContext, tmp_path: Path
) -> None:
    found = known.library_in(bundle.directory, work_dir=tmp_path)
    assert found == bundle.directory / "lib/libonnxruntime.so.1.21.0"
    packed = pack(bundle, tmp_path / "b.tar.zst", context=context)
    assert packed.archive is not None
    other = known.library_in(packed.archive, work_dir=tmp_path)
    assert other != found
    assert other.read_bytes() == found.read_bytes()


def test_a_folder_that_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError):
        known.library_in(tmp_path, work_dir=tmp_path)


def test_a_bundle_without_a_runtime(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    without = replace(bundle, manifest={**bundle.manifest, "runtime": None})
    monkeypatch.setattr(known, "open_bundle", lambda folder: without)
    with pytest.raises(UsageError, match="has no ONNX Runtime"):
        known.library_in(bundle.directory, work_dir=bundle.directory)
