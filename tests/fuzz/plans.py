"""Small sound plans of every step, and the program that computes what became of them."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgepack_engine.plan import (
    Activation,
    Buffer,
    Combination,
    Flag,
    Function,
    Operation,
    Plan,
    Pooled,
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
    """As BERT has it, as decoders with gates, rotary positions and shared heads do, with what neither has, and with layers behind the pooling."""
    chance = np.random.default_rng(1)
    return _encoder(chance), _decoder(chance), _other(chance), _behind(chance)


def with_pooling(steps: tuple[Step, ...], hidden: Buffer, mode: Pooled, *, unit: bool) -> Plan:
    """A plan whose vectors are those of tokens, pooled."""
    pooled, vector = Buffer(width=hidden.width), Buffer(width=hidden.width)
    at_length = Step(
        operation=Operation.UNIT, inputs=(pooled,), outputs=[vector], sizes=(hidden.width,), tensors=[]
    )
    return Plan(
        steps=steps,
        pooled=(_pool(mode, hidden, pooled, hidden.width), *[at_length] * unit),
        vector=vector if unit else pooled,
        dimension=hidden.width,
        longest=LONGEST,
    )


def _pool(mode: Pooled, source: Buffer, target: Buffer, count: int, place: int = 0) -> Step:
    return Step(
        operation=Operation.POOL,
        inputs=(source,),
        outputs=[target],
        sizes=(int(mode), count, place),
        tensors=[],
    )


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
    return with_pooling(
        (
            _lookup(words, Rows.TOKENS, wide, Flag.NONE, scaled=True),
            _lookup(_numbers(chance, 2, 64), Rows.TYPES, wide, Flag.ACCUMULATED, scaled=False),
            _lookup(_numbers(chance, 8, 64), Rows.COUNTED, wide, Flag.ACCUMULATED, scaled=False),
            Step(
                operation=Operation.NORM,
                inputs=(wide, None),
                outputs=[total, bytes, None],
                sizes=(64, 64),
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
        last,
        Pooled.MEAN,
        unit=True,
    )


def _decoder(chance: np.random.Generator) -> Plan:
    wide, bytes = Buffer(width=32), Buffer(width=32, bytes=1)
    made, heads, gated, total = Buffer(width=64), Buffer(width=32), Buffer(width=32), Buffer(width=32)
    norm, small = _numbers(chance, SIZE), _numbers(chance, SIZE // 2)
    return with_pooling(
        (
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
                sizes=(0, 3, SIZE, SIZE),
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
                sizes=(32, 32),
                numbers=(1e-6,),
                tensors=[None, _numbers(chance, 32), None, None],
            ),
        ),
        total,
        Pooled.LAST,
        unit=False,
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
    return with_pooling(
        (
            _lookup(_numbers(chance, 30, 64), Rows.TOKENS, wide, Flag.NONE, scaled=False),
            Step(
                operation=Operation.NORM,
                inputs=(wide, wide),
                outputs=[first, bytes, total],
                sizes=(64, 64),
                numbers=(0.5,),
                tensors=[_numbers(chance, 64) for _ in range(4)],
            ),
            _product(chance, bytes, made, Activation.GELU_TANH, 128),
            Step(
                operation=Operation.NORM_HEADS,
                inputs=(made,),
                outputs=[made],
                sizes=(*keys, SIZE),
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
                sizes=(64, 64),
                numbers=(0.5,),
                tensors=[None, _numbers(chance, 64), None, None],
            ),
        ),
        last,
        Pooled.MEAN,
        unit=False,
    )


def _behind(chance: np.random.Generator) -> Plan:
    """Rows of which not all numbers count, heads of 9 with kinds of distances, tokens that give something, and layers of texts."""
    wide, normed, bytes, heads = (
        Buffer(width=64, places=np.arange(40)),
        Buffer(width=64),
        Buffer(width=64, bytes=1),
        Buffer(width=64),
    )
    words = np.pad(_numbers(chance, 30, 40), ((0, 0), (0, 24)))
    weight, shift = (np.pad(_numbers(chance, 40), (0, 24)) for _ in range(2))
    keys = np.pad(_numbers(chance, 9), (0, 7))
    queries, seen = Buffer(width=128), Buffer(width=128)
    steps = (
        _lookup(words, Rows.TOKENS, wide, Flag.NONE, scaled=False),
        Step(
            operation=Operation.NORM,
            inputs=(wide, None),
            outputs=[normed, bytes, None],
            sizes=(64, 40),
            numbers=(1e-6,),
            tensors=[None, weight, shift, None],
        ),
        _product(chance, bytes, heads, Activation.LINEAR, 128),
        Step(
            operation=Operation.NORM_HEADS,
            inputs=(heads,),
            outputs=[heads],
            sizes=(0, 3, SIZE, 9),
            numbers=(1e-6,),
            tensors=[keys],
        ),
        *(step for head in range(2) for step in _by_kinds(chance, heads, SIZE * head, queries, head)),
        *(step for head in range(2) for step in _by_kinds(chance, heads, 32, seen, head)),
        Step(
            operation=Operation.ATTENTION,
            inputs=(heads, queries, seen),
            outputs=[heads],
            sizes=(2, 1, SIZE, 32, 48, 0, 2 * LONGEST - 1, 64),
            numbers=(0.3,),
            tensors=[None, chance.integers(0, 64, 2 * LONGEST - 1).astype("<i4")],
        ),
    )
    return _with_layers(chance, steps, normed, heads)


def _by_kinds(
    chance: np.random.Generator, heads: Buffer, begin: int, target: Buffer, head: int
) -> tuple[Step, Step]:
    """A number of a head for each of 64 kinds of distances."""
    bytes = Buffer(width=SIZE, bytes=1)
    weights = chance.integers(-64, 65, (SIZE, 64)).astype(np.int8)
    return (
        Step(
            operation=Operation.QUANTIZE,
            inputs=(heads,),
            outputs=[bytes],
            sizes=(SIZE, begin),
            numbers=(0,),
            tensors=[None],
        ),
        Step(
            operation=Operation.PRODUCT,
            inputs=(bytes,),
            outputs=[target],
            sizes=(SIZE, 64, int(Activation.LINEAR), 128, 64 * head),
            tensors=[
                packed(weights),
                weights.sum(axis=0, dtype="<i4"),
                np.full(64, 1e-4, "<f4"),
                np.zeros(64, "<f4"),
            ],
        ),
    )


def _with_layers(chance: np.random.Generator, steps: tuple[Step, ...], normed: Buffer, heads: Buffer) -> Plan:
    unit, raised, few, many = (Buffer(width=64) for _ in range(4))
    bytes = Buffer(width=64, bytes=1)
    pooled, bent, dense, logs, sum, vector = (Buffer(width=256) for _ in range(6))
    text = Buffer(width=256, bytes=1)

    def row(
        operation: Operation, sources: tuple[Buffer, ...], target: Buffer, *sizes: int, **more: Any
    ) -> Step:
        return Step(operation=operation, inputs=sources, outputs=[target], sizes=sizes, tensors=[], **more)

    def quantized(source: Buffer, target: Buffer) -> Step:
        return Step(
            operation=Operation.QUANTIZE,
            inputs=(source,),
            outputs=[target],
            sizes=(source.width,),
            numbers=(0,),
            tensors=[None],
        )

    def give(source: Buffer, count: int, place: int) -> Step:
        return Step(operation=Operation.GIVE, inputs=(source,), outputs=[], sizes=(count, place), tensors=[])

    tanh, clipped = int(Function.TANH), int(Function.CLIPPED)
    return Plan(
        steps=(
            *steps,
            row(Operation.UNIT, (heads,), unit, 64),
            row(Operation.ALTER, (normed,), raised, 40, int(Function.EXACT_GELU)),
            give(unit, 16, 0),
            give(raised, 1, 16),
            quantized(unit, bytes),
        ),
        pooled=(
            _product(chance, bytes, few, Activation.GELU, 128),
            _pool(Pooled.LARGEST, few, pooled, 64),
            _product(chance, bytes, few, Activation.LINEAR, 128),
            row(Operation.ALTER, (few,), many, 60, clipped, numbers=(0.0, 1e9)),
            _pool(Pooled.SUM, many, pooled, 60, 64),
            _pool(Pooled.RISING, normed, pooled, 40, 124),
            _pool(Pooled.ROOT, raised, pooled, 40, 164),
            row(Operation.ALTER, (pooled,), bent, 204, tanh),
            quantized(bent, text),
            _product(chance, text, dense, Activation.GELU_TANH, 128),
            row(Operation.SHARES, (dense,), logs, 200, 1),
            row(Operation.COMBINE, (logs, bent), sum, 204, int(Combination.ADDED)),
            row(Operation.UNIT, (sum,), vector, 256),
        ),
        vector=vector,
        dimension=203,
        longest=LONGEST,
        given=17,
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
