"""Lower CPU levels of a device, by a copy that is told that its processor has less."""

import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.device_records import verification
from tests.support.devices import Board, board_in
from tests.support.signed import write_small_bundle

from edgepack.bundles.manifest import open_bundle
from edgepack.device.describe import describe
from edgepack.device.levels import at_lower_levels, lower_levels
from edgepack.device.session import open_session, parse_address
from edgepack.errors import ProofError
from edgepack.foundry.feature_levels import processor_flags
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.device import DeviceDescription
from edgepack.records.report import Verification
from edgepack.records.target import ModelOptions
from edgepack.verifier.proofs import HIDER

pytestmark = pytest.mark.tools("gcc", "g++", "sh", may=("env",))
SOURCE = Path(__file__).parents[1] / "verifier" / "fake_embed.c"
EVERY = ("sse2", "avx", "avx2", "avx512")

needs_avx2 = pytest.mark.skipif(
    shutil.which("gcc") is None or platform.machine() != "x86_64" or not {"avx2"} <= processor_flags(),
    reason="needs gcc and a processor with AVX2",
)


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return board_in(tmp_path / "board")


def made(folder: Path, *flags: str) -> Bundle:
    """A bundle whose vectors are others at the level that BROKEN names, as many as AVX, AVX2 and AVX-512 are there."""
    subprocess.run(["gcc", "-O1", *flags, SOURCE, "-o", folder.with_suffix(".out"), "-ldl"], check=True)
    bundle = open_bundle(write_small_bundle(folder, folder.with_suffix(".out").read_bytes()))
    model = {**bundle.manifest["model"], "dimension": 2}
    runner = {**bundle.manifest["runner"], "by_level": True}
    target = {**bundle.manifest["target"], "platform": {"os": "linux", "arch": "x86_64"}}
    manifest = {**bundle.manifest, "model": model, "runner": runner, "target": target, "runtime": None}
    return replace(bundle, manifest=manifest)


def found(
    bundle: Bundle, board: Board, context: HostContext, vectors: Sequence[Sequence[float]]
) -> Verification:
    def embed(bundle: Bundle, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return vectors

    options = ModelOptions(min_processor_cosine=0.99)
    with open_session(parse_address(board.address()), context=context) as session:
        device = describe(session, context=context).device
        return at_lower_levels(
            bundle,
            session,
            device,
            embed,
            ["a text"] * len(vectors),
            verification(),
            options=options,
            context=context,
        )


@needs_avx2
def test_each_lower_level_is_run_and_nothing_stays(
    board: Board, tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEPACK_TOOLCHAIN", "gcc")
    bundle = made(tmp_path / "bundle", "-DBROKEN=-1")
    said = found(bundle, board, context, [[1.0, 0.0]] * 3)
    assert said.levels[:2] == ("sse2", "avx") and said.processor_cosine == 1.0
    assert board.left == [] and not (bundle.directory / HIDER).exists()


@needs_avx2
def test_what_is_wrong_at_a_lower_level_is_found(
    board: Board, tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEPACK_TOOLCHAIN", "gcc")
    with pytest.raises(ProofError, match=r"\(level avx, on board\).*0\.0000"):
        found(made(tmp_path / "bundle", "-DBROKEN=1"), board, context, [[1.0, 0.0]] * 3)
    assert board.left == []


@needs_avx2
def test_a_static_program_is_run_at_its_own_level_alone(
    board: Board, tmp_path: Path, context: HostContext
) -> None:
    said = found(made(tmp_path / "bundle", "-DBROKEN=-1", "-static"), board, context, [[1.0, 0.0]] * 3)
    assert (said.levels, said.processor_cosine) == ((), None)


@needs_avx2
@pytest.mark.parametrize(
    ("levels", "changes", "lower"),
    [
        (EVERY, {}, ("sse2", "avx", "avx2")),
        (("sse2",), {}, ()),
        ((), {}, ()),
        (EVERY, {"runner": {"program": "embed"}}, ()),
        (EVERY, {"runtime": {"library": "embed", "provider": {"name": "CUDA"}}}, ()),
        (EVERY, {"target": {"platform": {"arch": "x86_64", "isa": ["avx2", "avx512"]}}}, ("avx2",)),
    ],
)
def test_levels_below_a_devices_own(
    levels: tuple[str, ...],
    changes: dict[str, object],
    lower: tuple[str, ...],
    tmp_path: Path,
    context: HostContext,
) -> None:
    bundle = made(tmp_path / "bundle", "-DBROKEN=-1")
    bundle = replace(bundle, manifest={**bundle.manifest, **changes})
    device = DeviceDescription(system="Linux", machine="x86_64", levels=levels)
    assert tuple(each.name for each in lower_levels(bundle, device, context=context)) == lower
