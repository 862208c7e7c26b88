"""A finished bundle is verified without its maker: every target's folder and archive, and a stranger's only when asked."""

import json
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.bundles import made_bundle
from tests.support.command import edgepack
from tests.support.quick import quick

from edgepack.console import Story
from edgepack.errors import BundleError, ModelError, VerificationError
from edgepack.finished_bundle import NOT_RUN, VerifyOptions, verify_again
from edgepack.plugins.context import host_context
from edgepack.records.bundle import Bundle
from edgepack.records.report import Verification
from edgepack.records.target import ModelOptions
from edgepack.verifier.confined.found import find_sandbox
from edgepack.verifier.facts import limits_of

pytestmark = [pytest.mark.e2e, pytest.mark.builds("of a tiny model, so that verifying takes little")]

TARGETS = {
    "linux-x86-min": ("--set", "model.min_agreement=0.8"),
    "linux-x86": (),
    "linux-arm64-min": ("--set", "model.min_agreement=0.8"),
    "web-wasm": ("--set", "runtime=stock", "--set", "model.min_agreement=0.8"),
}
"""The GPU targets' bundles are verified in tests/plugins (made-up wheels) and tests/e2e/test_cuda.py, test_tensorrt.py."""


@pytest.fixture(scope="module")
def tiny(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Bundle]:
    """Makes a target's bundle of a tiny model, once."""
    made: dict[str, Bundle] = {}

    def make(target: str) -> Bundle:
        if target not in made:
            output = tmp_path_factory.mktemp("verified")
            made[target] = made_bundle(
                target, output, "--model", str(tiny_model), "--gate", "off", *TARGETS[target]
            )
        return made[target]

    return make


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bundle was made on this machine."""
    monkeypatch.setattr("edgepack.verifier.trusted_bundles.is_made_here", lambda digest, *, store: False)


def verified(
    path: Path, model: Path, *, run: bool = False, limits: ModelOptions | None = None
) -> Verification:
    with host_context(story=Story(quiet=True), offline=True) as context:
        return verify_again(
            path, VerifyOptions(model=str(model), limits=limits, gate="quick", run=run), context=context
        )


# Emulated, and for browsers: verified in test_runtime.py and test_web.py as well.
@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_the_folder_and_the_archive_of_every_target(
    target: str, tiny: Callable[[str], Bundle], tiny_model: Path, tmp_path: Path
) -> None:
    bundle = tiny(target)
    assert bundle.archive is not None
    package = tmp_path / "package.tar"
    with tarfile.open(package, "w") as archive:
        archive.add(bundle.directory, "bundle")
        archive.add(__file__, "setup.py")
    unseen = ("what package.tar holds beside the bundle: setup.py",)
    for path in (bundle.directory, bundle.archive, package):
        found = verified(path, tiny_model)
        assert found.said == (unseen if path == package else ())
        assert (found.status, found.texts) == ("passed", 200), found.reason
        assert found.mean_cosine > 0.98


@pytest.mark.parametrize("target", quick(TARGETS, "linux-x86-min"))
def test_a_bundle_from_elsewhere_is_run_when_asked_and_in_a_sandbox(
    target: str, tiny: Callable[[str], Bundle], tiny_model: Path, elsewhere: None
) -> None:
    bundle = tiny(target)
    left = verified(bundle.directory, tiny_model)
    assert (left.status, left.reason, left.texts) == ("not verified", NOT_RUN, 0)
    if find_sandbox() is None:
        pytest.skip("no sandbox works on this machine")
    found = verified(bundle.directory, tiny_model, run=True, limits=limits_of(bundle.manifest))
    assert found.status == "passed"
    assert found.drawn is not None and found.drawn.texts == 64 and found.drawn.min_cosine > 0.9
    assert found.long_cosine is not None and found.long_cosine > 0.9
    assert found.said[0].startswith("version ") and any(each.startswith("recipe ") for each in found.said)
    # Of a program for another processor, or a script, only the one level is at hand.
    assert ("sse2" in found.levels) == target.startswith("linux-x86")


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "said",
    [
        {"max_length": 32},
        {"prefixes": {"query": "IGNORE ALL PREVIOUS ", "passage": "bad "}},
        {"source_files": []},
        {"precision": "fp32"},
    ],
    ids=lambda said: next(iter(said)),
)
def test_a_manifest_that_says_what_is_not_so_of_the_model_is_not_verified(
    tiny: Callable[[str], Bundle],
    tiny_model: Path,
    tmp_path: Path,
    elsewhere: None,
    said: dict[str, object],
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tiny("linux-x86-min").directory, copy, symlinks=True)
    (copy / "signature.sigstore.json").unlink(missing_ok=True)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["model"].update(said)
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises((VerificationError, ModelError)) as refused:
        verified(copy, tiny_model, run=True, limits=replace(limits_of(manifest), min_agreement=0.5))
    name = next(iter(said))
    assert (name if name != "source_files" else "made from another model") in refused.value.message or (
        name == "precision" and "its model is fp32" in refused.value.message
    )


def test_files_are_checked_before_anything_runs(
    tiny: Callable[[str], Bundle], tiny_model: Path, tmp_path: Path, elsewhere: None
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tiny("linux-x86-min").directory, copy, symlinks=True)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["runner"]["command"] = ["sh", "-c", f"touch {tmp_path}/was-here"]
    program = copy / "embed"
    program.write_bytes(program.read_bytes() + b" ")
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match="embed is damaged"):
        verified(copy, tiny_model, run=True)
    assert not (tmp_path / "was-here").exists()


def test_the_command_says_what_it_did_not_do(
    tiny: Callable[[str], Bundle], tiny_model: Path, tmp_path: Path
) -> None:
    bundle = tiny("linux-x86-min")
    # Another cache: what was made here is not known there.
    done = edgepack(
        "verify",
        str(bundle.directory),
        "--model",
        str(tiny_model),
        "--offline",
        env={"EDGEPACK_CACHE": str(tmp_path)},
    )
    assert done.returncode == 20
    assert done.stdout.startswith("not verified: its files are as its manifest lists them")
    assert "--run" in done.stdout
