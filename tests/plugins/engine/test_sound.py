"""Plans of strangers: one that processors without VNNI compute otherwise is not verified, whatever this machine's processor is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.families import write_family

from edgepack.errors import VerificationError
from edgepack.plugins.checks import require_sound
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack.records.bundle import Bundle
from edgepack.targets import built_in_targets, read_target
from edgepack_engine.builder import create_builder
from edgepack_engine.plan import HEADER, STEP, STEP_SIZES, STEP_TENSORS, WIDEST_PAIR, Operation
from edgepack_engine.sound import widest_pair


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory, shared_context: HostContext) -> bytes:
    """An honest plan."""
    source, _ = write_family(
        tmp_path_factory.mktemp("model"), "bert", std=0.1, hidden_size=64, intermediate_size=128
    )
    file = next(file for file in built_in_targets() if file.name == "linux-x86-fast.toml")
    target = read_target(file, origin="edgepack", overrides=())
    return create_builder(target, shared_context).prepare_model(source).file.read_bytes()


def bundle_of(content: bytes, folder: Path) -> Bundle:
    (folder / "model.plan").write_bytes(content)
    manifest: dict[str, Any] = {"name": "b", "model": {"format": "plan", "file": "model.plan"}}
    return Bundle(directory=folder, manifest={**manifest, "files": [{"path": "model.plan"}]})


def last_product(plan: bytes) -> tuple[int, int]:
    """Place and size of the weights of the plan's last product."""
    *_, steps_at = HEADER.unpack(plan[: HEADER.size])
    count = HEADER.unpack(plan[: HEADER.size])[2]
    steps = [STEP.unpack_from(plan, steps_at + at * STEP.size) for at in range(count)]
    step = [each for each in steps if each[0] == Operation.PRODUCT][-1]
    return step[STEP_TENSORS], step[STEP_SIZES] * step[STEP_SIZES + 1]


def test_an_honest_plan_is_sound(plan: bytes, tmp_path: Path) -> None:
    assert "pairs" in load_plugins().extensions("checks")
    bundle = bundle_of(plan, tmp_path)
    assert 1 < widest_pair(bundle.directory / "model.plan") <= WIDEST_PAIR


@pytest.mark.parametrize("where", ["first", "last"])
def test_a_pair_that_is_clipped_without_vnni_is_refused(
    plan: bytes, tmp_path: Path, context: HostContext, where: str
) -> None:
    place, size = last_product(plan)
    at = place if where == "first" else place + size - 2
    content = bytearray(plan)
    content[at : at + 2] = np.array([-65, 64], np.int8).tobytes()
    assert at % 2 == 0
    with pytest.raises(
        VerificationError, match=r"check pairs of engine.*weights are 129 together, above 128"
    ):
        require_sound(bundle_of(bytes(content), tmp_path), context=context)
    content[at : at + 2] = np.array([-64, 64], np.int8).tobytes()
    require_sound(bundle_of(bytes(content), tmp_path), context=context)


def test_a_plan_is_a_plan_whatever_its_bundle_calls_it(
    plan: bytes, tmp_path: Path, context: HostContext
) -> None:
    place, _ = last_product(plan)
    bundle = bundle_of(plan[:place] + b"\x81\x7f" + plan[place + 2 :], tmp_path)
    (tmp_path / "honest").write_bytes(plan)
    for said in ({"format": "ort"}, {"file": "honest"}, {"format": "ort", "file": "honest"}):
        bundle.manifest["model"].update(said)
        with pytest.raises(VerificationError, match=r"weights are 254 together, above 128"):
            require_sound(bundle, context=context)


@pytest.mark.parametrize("cut", [0, 10, HEADER.size, -1])
def test_what_is_no_plan_is_refused(plan: bytes, tmp_path: Path, context: HostContext, cut: int) -> None:
    with pytest.raises(VerificationError, match="check pairs"):
        require_sound(bundle_of(plan[:cut], tmp_path), context=context)
    with pytest.raises(VerificationError, match="check pairs"):
        require_sound(bundle_of(b"x" + plan[1:], tmp_path), context=context)


def test_weights_are_looked_at_once(
    plan: bytes, tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tens of thousands of steps with the same megabytes would take hours, before any sandbox."""
    _, _, count, *_, steps_at = HEADER.unpack(plan[: HEADER.size])
    steps = [STEP.unpack_from(plan, steps_at + at * STEP.size) for at in range(count)]
    product = next(step for step in steps if step[0] == Operation.PRODUCT)
    looked: list[int] = []

    def widest(weights: np.ndarray) -> int:
        looked.append(len(weights))
        return 0

    monkeypatch.setattr("edgepack_engine.sound._widest", widest)
    content = bytearray(plan)
    content[steps_at : steps_at + count * STEP.size] = STEP.pack(*product) * count
    require_sound(bundle_of(bytes(content), tmp_path), context=context)
    assert len(looked) == 1
    other = list(product)
    other[STEP_SIZES : STEP_SIZES + 2] = [2, len(plan) // 8]
    for at in range(count):
        other[STEP_TENSORS] = 64 + 2 * at
        STEP.pack_into(content, steps_at + at * STEP.size, *other)
    with pytest.raises(VerificationError, match="lie over one another"):
        require_sound(bundle_of(bytes(content), tmp_path), context=context)
