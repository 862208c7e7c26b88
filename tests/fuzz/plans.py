"""Small sound plans of every step, and the program that computes what became of them."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgepack_engine.plan import (
    Activation,
    Buffer,
    Flag,
    Operation,
    Plan,
    Rows,
    Step,
    packed,
    write_plan,
)
from tests.fuzz.native import SANITIZERS, has_sanitizers, native_campaign
from tests.fuzz.rounds import Campaign
from tests.support.engine_session import session_sources
from tests.support.native import compile_apart

LONGEST, SIZE = 130, 16


def compile_plans(program: Path, *flags: str) -> Path:
    """``fuzz`` with the target ``plan``; the kernels are those of any processor."""
    folder = Path(__file__).parent
    own = {
        "fuzz/driver.cc": (folder / "driver.cc").read_text(encoding="utf-8"),
        "plan_target.cc": (folder / "engine/plan.cc").read_text(encoding="utf-8"),
    }
    return compile_apart({**session_sources(), **own}, program, *flags)


def sound_plans() -> tuple[Plan, ...]:
    """As BERT has it, as decoders with gates, rotary positions and shared heads do, and with what neither has."""
    chance = np.random.default_rng(1)
    return _encoder(chance), _decoder(chance), _other(chance)


def small_plans() -> Iterator[bytes]:
    """Their files."""
    with tempfile.TemporaryDirectory() as folder:
        for plan in sound_plans():
            write_plan(plan, Path(folder) / "plan")
            yield (Path(folder) / "plan").read_bytes()


def _numbers(chance: np.random.Generator, *shape: int) -> npt.NDArray[np.float32]:
    return chance.normal(size=shape).astype("<f4")


def _product(
    chance: np.random.Generator, source: Buffer, target: Buffer, activation: Activation, zero: int
) -> Step:
    weights = chance.integers(-64, 65, (source.width, target.width)).astype(np.int8)
    return Step(
        operation=Operation.PRODUCT,
        inputs=(source,),
        outputs=[target],
        sizes=(source.width, target.width, int(activation), zero),
        tensors=[
            packed(weights),
            weights.sum(axis=0, dtype="<i4"),
            _numbers(chance, target.width) * np.float32(3e-5),
            _numbers(chance, target.width),
        ],
    )


def _lookup(table: npt.NDArray[np.generic], by: Rows, target: Buffer, flags: Flag, *, scaled: bool) -> Step:
    return Step(
        operation=Operation.LOOKUP,
        flags=flags,
        inputs=(int(by),),
        outputs=[target],
        sizes=(target.width, len(table), 0, 1),
        tensors=[table, np.full(len(table), 0.01, "<f4") if scaled else None],
    )


def _encoder(chance: np.random.Generator) -> Plan:
    wide, bytes = Buffer(width=64), Buffer(width=64, bytes=1)
    made, few, last = Buffer(width=64), Buffer(width=SIZE, bytes=1), Buffer(width=64)
    total = Buffer(width=64)
    words = chance.integers(-127, 128, (30, 64)).astype(np.int8)
    return Plan(
        steps=(
            _lookup(words, Rows.TOKENS, wide, Flag.NONE, scaled=True),
            _lookup(_numbers(chance, 2, 64), Rows.TYPES, wide, Flag.ACCUMULATED, scaled=False),
            _lookup(_numbers(chance, 8, 64), Rows.COUNTED, wide, Flag.ACCUMULATED, scaled=False),
            Step(
                operation=Operation.NORM,
                inputs=(wide, None),
                outputs=[total, bytes, None],
                sizes=(64,),
                numbers=(1e-12,),
                tensors=[_numbers(chance, 64), _numbers(chance, 64), _numbers(chance, 64), None],
            ),
            _product(chance, bytes, made, Activation.GELU, 128),
            Step(
                operation=Operation.ATTENTION,
                inputs=(made,),
                outputs=[made],
                sizes=(1, 1, SIZE, 16, 32, 0, 2 * LONGEST - 1),
                numbers=(0.25,),
                tensors=[_numbers(chance, 1, 2 * LONGEST - 1)],
            ),
            Step(
                operation=Operation.QUANTIZE,
                flags=Flag.UNSIGNED,
                inputs=(made,),
                outputs=[few],
                sizes=(SIZE,),
                numbers=(0.2,),
                # So that nothing of it is negative, which would be no byte.
                tensors=[chance.random(SIZE).astype("<f4")],
            ),
            _product(chance, few, last, Activation.LINEAR, 0),
        ),
        vector=last,
        pooling="mean",
        normalize=True,
        longest=LONGEST,
    )


def _decoder(chance: np.random.Generator) -> Plan:
    wide, bytes = Buffer(width=32), Buffer(width=32, bytes=1)
    made, heads, gated, total = Buffer(width=64), Buffer(width=32), Buffer(width=32), Buffer(width=32)
    norm, small = _numbers(chance, SIZE), _numbers(chance, SIZE // 2)
    return Plan(
        steps=(
            _lookup(_numbers(chance, 9, 32), Rows.POSITIONS, wide, Flag.NONE, scaled=False),
            Step(
                operation=Operation.QUANTIZE,
                inputs=(wide,),
                outputs=[bytes],
                sizes=(32,),
                numbers=(0,),
                tensors=[None],
            ),
            _product(chance, bytes, made, Activation.LINEAR, 128),
            Step(
                operation=Operation.NORM_HEADS,
                inputs=(made,),
                outputs=[made],
                sizes=(0, 3, SIZE),
                numbers=(1e-6,),
                tensors=[norm],
            ),
            Step(
                operation=Operation.ROTATE,
                inputs=(made,),
                outputs=[made],
                sizes=(0, 3, SIZE),
                tensors=[small],
            ),
            Step(
                operation=Operation.ATTENTION,
                flags=Flag.CAUSAL,
                inputs=(made,),
                outputs=[heads],
                sizes=(2, 1, SIZE, 32, 48, 5, 0),
                numbers=(0.25,),
                tensors=[None],
            ),
            Step(
                operation=Operation.GATE,
                inputs=(made,),
                outputs=[gated],
                sizes=(32, int(Activation.SILU)),
                tensors=[],
            ),
            Step(
                operation=Operation.NORM,
                flags=Flag.WITHOUT_MEAN,
                inputs=(gated, heads),
                outputs=[total, None, None],
                sizes=(32,),
                numbers=(1e-6,),
                tensors=[None, _numbers(chance, 32), None, None],
            ),
        ),
        vector=total,
        pooling="lasttoken",
        normalize=False,
        longest=LONGEST,
    )


def _other(chance: np.random.Generator) -> Plan:
    """Norms of large epsilons whose sum is used again and which smooth what they quantize, and heads with distances of their own."""
    wide, first, total, bytes = (
        Buffer(width=64),
        Buffer(width=64),
        Buffer(width=64),
        Buffer(width=64, bytes=1),
    )
    made, gated, last = Buffer(width=128), Buffer(width=64), Buffer(width=64)
    keys = (32, 2, SIZE)
    return Plan(
        steps=(
            _lookup(_numbers(chance, 30, 64), Rows.TOKENS, wide, Flag.NONE, scaled=False),
            Step(
                operation=Operation.NORM,
                inputs=(wide, wide),
                outputs=[first, bytes, total],
                sizes=(64,),
                numbers=(0.5,),
                tensors=[_numbers(chance, 64) for _ in range(4)],
            ),
            _product(chance, bytes, made, Activation.GELU_TANH, 128),
            Step(
                operation=Operation.NORM_HEADS,
                inputs=(made,),
                outputs=[made],
                sizes=keys,
                numbers=(0.5,),
                tensors=[_numbers(chance, SIZE)],
            ),
            Step(
                operation=Operation.ROTATE,
                inputs=(made,),
                outputs=[made],
                sizes=keys,
                tensors=[_numbers(chance, SIZE // 2)],
            ),
            Step(
                operation=Operation.ATTENTION,
                inputs=(made,),
                outputs=[made],
                sizes=(2, 2, SIZE, 32, 64, 0, 2 * LONGEST - 1),
                numbers=(0.25,),
                tensors=[_numbers(chance, 2, 2 * LONGEST - 1)],
            ),
            Step(
                operation=Operation.GATE,
                inputs=(made,),
                outputs=[gated],
                sizes=(64, int(Activation.GELU)),
                tensors=[],
            ),
            Step(
                operation=Operation.NORM,
                inputs=(gated, total),
                outputs=[last, None, None],
                sizes=(64,),
                numbers=(0.5,),
                tensors=[None, _numbers(chance, 64), None, None],
            ),
        ),
        vector=last,
        pooling="mean",
        normalize=False,
        longest=LONGEST,
    )


def write_seeds(folder: Path) -> list[Path]:
    paths = []
    for number, content in enumerate(small_plans()):
        paths.append(folder / f"plan-{number}")
        paths[-1].write_bytes(content)
    return paths


def campaigns(folder: Path) -> Iterator[Campaign]:
    program = compile_plans(folder / "fuzz", *(SANITIZERS if has_sanitizers(folder) else ("-O1",)))
    yield native_campaign(program, "plan", write_seeds(folder))
