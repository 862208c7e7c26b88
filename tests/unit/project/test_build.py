"""What a build of a project does with the bundles that its cells are."""

from pathlib import Path

from tests.support.signed import key_in, write_small_bundle

from edgepack.bundles.manifest import SIGNATURE
from edgepack.plugins.context import HostContext
from edgepack.project.build import _signed
from edgepack.project.jobs import Result


def test_a_bundle_that_another_run_has_put_there_meanwhile_is_not_signed(
    tmp_path: Path, context: HostContext
) -> None:
    folder = write_small_bundle(tmp_path / "dist/sample")
    made = Result(label="a", state="made", seconds=0, path=folder)
    found = _signed(made, key_in(tmp_path), context)
    assert found.error and "another run has replaced it" in found.error.message
    assert not (folder / SIGNATURE).exists()
