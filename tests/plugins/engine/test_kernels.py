"""The kernels of every level against NumPy, on random shapes, with guarded ends: near what 64 bits give, and to the bit what 32 bits
give in the order that ``tests.support.engine_bits`` says."""

import functools
import math
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from tests.support import engine_arm64, engine_bits
from tests.support import engine_kernels as engine
from tests.support.engine_kernels import Array, Guarded, place
from tests.support.once import made_once

from edgepack.foundry.proof.emulator import find_emulator
from edgepack_engine.plan import MOST_DEPTH, Activation, packed

pytestmark = [
    pytest.mark.tools("python", may=("qemu-aarch64", "qemu-aarch64-static")),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="compiles for x86-64"),
]


def compile_all(folder: Path) -> None:
    engine.compile_kernels(folder / "kernels.so")


def compile_arm64(folder: Path) -> None:
    engine_arm64.compile_program(folder / "kernels")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # A mutant, of test_mutants.py.
    if given := os.environ.get(engine.LIBRARY):
        return Path(given)
    return made_once(tmp_path_factory, "engine-kernels", compile_all) / "kernels.so"


@pytest.fixture(
    scope="module",
    params=[*engine.NEEDS, *(pytest.param(level, marks=pytest.mark.slow) for level in engine_arm64.LEVELS)],
)
def level(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param in engine_arm64.LEVELS:
        program = request.getfixturevalue("program")
        emulator = find_emulator("aarch64", context=request.getfixturevalue("shared_context")).command("max")
        emulated = engine_arm64.Emulated(emulator, program, request.param)
        yield emulated
        emulated.close()
        return
    if not engine.has_level(request.param):
        pytest.skip(f"this processor has no {engine.NEEDS[request.param]}")
    library = request.getfixturevalue("library")
    if not engine.is_in(library, request.param):
        pytest.skip("a mutant of another level")
    yield engine.level_of(library, request.param)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For arm64."""
    if given := os.environ.get(engine.LIBRARY):
        if given.endswith(".so"):
            pytest.skip("a mutant of another processor")
        return Path(given)
    return made_once(tmp_path_factory, "engine-arm64", compile_arm64) / "kernels"


@pytest.fixture(params=[12, pytest.param(3000, marks=pytest.mark.slow)])
def shapes(request: pytest.FixtureRequest) -> Iterator[tuple[np.random.Generator, Guarded]]:
    """So many random shapes of each kernel and level: 10^5 in all of them, slowly."""

    def each() -> Iterator[tuple[np.random.Generator, Guarded]]:
        guarded = Guarded()
        for number in range(request.param):
            guarded.clear()
            yield np.random.default_rng(number), guarded

    return each()


def call(kernel: Any, task: Any) -> None:
    import ctypes

    kernel(ctypes.addressof(task))


def normal(chance: np.random.Generator, guarded: Guarded, *shape: int, scale: float = 1) -> Array:
    return guarded.copy((chance.normal(size=shape) * scale).astype("<f4"))


def maybe(chance: np.random.Generator, array: Array) -> Array | None:
    return array if chance.random() < 0.5 else None


@functools.lru_cache(maxsize=64)
def session_of(kind: str, inputs: tuple[tuple[str, str, int], ...], domain: str, attributes: Any) -> Any:
    """The stock library with one of its own operators, for inputs of any sizes."""
    types = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "uint8": TensorProto.UINT8}
    types |= {"int8": TensorProto.INT8}
    given = [helper.make_tensor_value_info(name, types[type], [None] * rank) for name, type, rank in inputs]
    whole = {"MatMulInteger": TensorProto.INT32, "QuantizeLinear": TensorProto.UINT8}
    made = helper.make_tensor_value_info("made", whole.get(kind, TensorProto.FLOAT), None)
    names = [name if not name.startswith("none") else "" for name, _, _ in inputs]
    node = helper.make_node(kind, names, ["made"], domain=domain, **dict(attributes))
    graph = helper.make_graph([node], "one", [each for each in given if each.name in names], [made])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def computed(
    kind: str, inputs: dict[str, Array], *, domain: str = "com.microsoft", **attributes: Any
) -> Array:
    """What the stock library makes of one of its own operators; an input ``none…`` is left out."""
    described = tuple((name, str(each.dtype), each.ndim) for name, each in inputs.items())
    session = session_of(kind, described, domain, tuple(attributes.items()))
    found: Array = session.run(
        None,
        {name: np.asarray(each, order="C") for name, each in inputs.items() if not name.startswith("none")},
    )[0]
    return found


STOCK: dict[Activation, tuple[str, dict[str, Any]]] = {
    Activation.GELU: ("Gelu", {}),
    Activation.GELU_TANH: ("FastGelu", {}),
    Activation.SILU: ("QuickGelu", {"alpha": 1.0}),
}


def stock_activated(kind: int, x: Array) -> Array:
    name, attributes = STOCK.get(Activation(kind), ("", {}))
    return computed(name, {"x": x.astype("<f4")}, **attributes) if name else x


def activated(kind: int, x: Array) -> Array:
    made: Array = x
    if kind == Activation.GELU:
        made = x * 0.5 * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))
    if kind == Activation.GELU_TANH:
        made = x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    if kind == Activation.SILU:
        made = x / (1 + np.exp(-x))
    return made


def close(found: Array, wanted: Array, *, of: float) -> None:
    """Within so much of the largest number, or of 1."""
    assert np.isfinite(found).all()
    assert np.abs(found - wanted).max() <= of * max(1.0, np.abs(wanted).max())


def check_bytes(found: Array, ranges: Array, numbers: Array, *, unsigned: bool) -> None:
    """The nearest integers. A product and a range in 32 bits are 255 x 2^-23 off at most: what lies so near a half goes either way."""
    numbers = numbers.astype(np.float64)
    most = np.maximum((numbers if unsigned else np.abs(numbers)).max(axis=1, initial=0), 1e-12)
    np.testing.assert_allclose(ranges, most, rtol=3e-7)
    steps, middle = (255, 0) if unsigned else (127, 128)
    exact = numbers / most[:, None] * steps + middle
    assert np.abs(found - exact).max() <= 0.5 + 1e-4


def test_norms(level: Any, shapes: Any) -> None:
    for chance, guarded in shapes:
        rows, width = int(chance.integers(1, 9)), 16 * int(chance.integers(1, 49))
        counted = width - int(chance.choice([0, 0, 1, 9]))
        x, skip = (normal(chance, guarded, rows, width, scale=3) for _ in range(2))
        bias, weight, shift, smoothing = (normal(chance, guarded, width) for _ in range(4))
        for array in (x, skip, bias, weight, shift):
            array[..., counted:] = 0
        used = [maybe(chance, each) for each in (skip, bias, shift, smoothing)]
        sums = maybe(chance, guarded.empty((rows, width), "<f4"))
        output, bytes = guarded.empty((rows, width), "<f4"), guarded.empty((rows, width), "u1")
        quantized, ranges = maybe(chance, bytes), guarded.empty((rows,), "<f4")
        # Large, so that a norm without it is another.
        epsilon, without_mean = float(chance.choice([1e-12, 0.5])), bool(chance.random() < 0.5)
        call(
            level.norm,
            engine.Norm(
                *(place(each) for each in (x, used[0], used[1], weight, used[2], used[3])),
                epsilon,
                without_mean,
                *(place(each) for each in (sums, output, quantized, ranges)),
                rows,
                width,
                counted,
            ),
        )
        total = x.astype(np.float64) + sum(each for each in used[:2] if each is not None)
        rounded = x
        for each in used[:2]:
            rounded = rounded if each is None else rounded + each
        assert np.array_equal(
            output, engine_bits.norm(rounded, weight, used[2], epsilon, counted, without_mean=without_mean)
        )
        if sums is not None:
            assert np.array_equal(sums, rounded)
        total, output, weight = total[:, :counted], output[:, :counted], weight[:counted]
        added, factors = (None if each is None else each[..., :counted] for each in used[2:])
        centered = total if without_mean else total - total.mean(axis=1, keepdims=True)
        wanted = centered / np.sqrt((centered**2).mean(axis=1, keepdims=True) + epsilon) * weight
        # Sums of up to 768 numbers in 32 bits.
        close(output, wanted + (0 if added is None else added), of=2e-6)
        parts = {"x": total.astype("<f4"), "weight": weight}
        if added is not None and not without_mean:
            parts["shift"] = added
        kind = "SimplifiedLayerNormalization" if without_mean else "LayerNormalization"
        stock = computed(kind, parts, domain="", epsilon=epsilon, axis=-1)
        close(output, stock + (added if without_mean and added is not None else 0), of=1e-5)
        if quantized is not None:
            numbers = output if factors is None else output * factors
            check_bytes(quantized[:, :counted], ranges, numbers, unsigned=False)
            assert (quantized[:, counted:] == 128).all()


def quantized(
    level: Any, guarded: Guarded, x: Array, *, width: int, smoothing: Array | None, raised: float | None
) -> Any:
    rows, stride = x.shape
    # What follows the last row's numbers is not there.
    inside = guarded.copy(x.reshape(-1)[: (rows - 1) * stride + width])
    output, ranges = guarded.empty((rows, width), "u1"), guarded.empty((rows,), "<f4")
    task = engine.Quantization(
        place(inside),
        place(smoothing),
        raised or 0,
        raised is not None,
        place(output),
        place(ranges),
        rows,
        width,
        stride,
    )
    call(level.quantize, task)
    return output, ranges


def test_bytes(level: Any, shapes: Any) -> None:
    for chance, guarded in shapes:
        rows, width = int(chance.integers(1, 9)), 16 * int(chance.integers(1, 49))
        stride = width + 16 * int(chance.integers(0, 3))
        x = (chance.normal(size=(rows, stride)) * 10.0 ** chance.integers(-8, 8)).astype("<f4")
        unsigned = chance.random() < 0.5
        if unsigned:
            raised = np.float32(chance.random())
            found = quantized(
                level, guarded, np.abs(x) - raised, width=width, smoothing=None, raised=float(raised)
            )
            numbers = (np.abs(x) - raised + raised)[:, :width]
        else:
            smoothing = maybe(chance, normal(chance, guarded, width))
            found = quantized(level, guarded, x, width=width, smoothing=smoothing, raised=None)
            numbers = x[:, :width] if smoothing is None else x[:, :width] * smoothing
        check_bytes(found[0], found[1], numbers, unsigned=unsigned)
        assert np.array_equal(found[0], engine_bits.quantized(numbers, None, None if not unsigned else 0)[0])
        steps = np.float32(1 / (255 if unsigned else 127))
        stock = computed(
            "QuantizeLinear",
            {
                "x": numbers / found[1][:, None],
                "step": np.array(steps),
                "zero": np.array(0 if unsigned else 128, np.uint8),
            },
            domain="",
        )
        # What lies next to a half goes either way: small numbers, raised, are few steps of a float apart, and many of them halves.
        exact = numbers.astype(float) / found[1][:, None] * (255 if unsigned else 127)
        away = np.abs(exact - np.floor(exact) - 0.5) > 1e-3
        np.testing.assert_array_equal(found[0][away], stock[away])
        assert np.abs(found[0].astype(int) - stock).max() <= 1


@pytest.mark.parametrize(("steps", "raised", "middle"), [(127, None, 128), (255, 0.0, 0)])
def test_halves_go_to_even_bytes(level: Any, steps: int, raised: float | None, middle: int) -> None:
    halves = np.arange(0 if raised is not None else -steps, steps + 0.5, 0.5)
    x = np.concatenate([halves, np.full(-len(halves) % 16, steps)]).astype("<f4")[None]
    found, ranges = quantized(level, Guarded(), x, width=x.shape[1], smoothing=None, raised=raised)
    assert ranges[0] == steps
    assert np.array_equal(found, np.rint(x) + middle)


def test_zeros_are_the_byte_of_zero(level: Any) -> None:
    for raised, middle in ((None, 128), (0.0, 0)):
        found, ranges = quantized(
            level, Guarded(), np.zeros((2, 16), "<f4"), width=16, smoothing=None, raised=raised
        )
        assert (found == middle).all()
        assert (ranges == np.float32(1e-12)).all()


def pairs_within(chance: np.random.Generator, depth: int, width: int, most: int) -> Array:
    """Weights, two neighbours of a column no further from 0 than that together; some that far."""
    one = chance.integers(0, min(most, 127) + 1, (depth // 2, width))
    other = np.minimum(
        np.where(chance.random(one.shape) < 0.3, most - one, chance.integers(0, 65, one.shape)), 127
    )
    other = np.minimum(other, most - one)
    signs = chance.choice([-1, 1], (depth, width))
    made: Array = (np.stack([one, other], axis=1).reshape(depth, width) * signs).astype(np.int8)
    return made


def multiplied(
    level: Any, guarded: Guarded, x: Array, weights: Array, *, zero: int, kind: int = 0, **others: Any
) -> Array:
    rows, width = x.shape[0], weights.shape[1]
    ones = {"ranges": np.ones(rows, "<f4"), "scales": np.ones(width, "<f4"), "bias": np.zeros(width, "<f4")}
    given = {name: guarded.copy(others.get(name, array)) for name, array in ones.items()}
    inputs = [guarded.copy(each) for each in (x, packed(weights), weights.sum(axis=0, dtype="<i4"))]
    output = guarded.empty((rows, width), "<f4")
    task = engine.Product(
        place(inputs[0]),
        place(given["ranges"]),
        place(inputs[1]),
        place(inputs[2]),
        zero,
        place(given["scales"]),
        place(given["bias"]),
        place(output),
        rows,
        x.shape[1],
        width,
        width,
        kind,
    )
    call(level.product, task)
    return output


def test_products(level: Any, shapes: Any) -> None:
    for chance, guarded in shapes:
        rows, depth, width = (
            int(chance.integers(1, 14)),
            16 * int(chance.integers(1, 13)),
            64 * int(chance.integers(1, 4)),
        )
        x = chance.integers(0, 256, (rows, depth)).astype(np.uint8)
        weights = pairs_within(chance, depth, width, 128)
        zero = int(chance.choice([0, 128]))
        whole = (x.astype(np.int64) - zero) @ weights.astype(np.int64)
        # Below 2^24, so that 32 bits hold each of them: the same integers on every level.
        found = multiplied(level, guarded, x, weights, zero=zero)
        assert np.array_equal(found, whole)
        inputs = {"x": x, "weights": weights, "zero": np.array(zero, np.uint8)}
        assert np.array_equal(found, computed("MatMulInteger", inputs, domain=""))
        ranges, scales = (chance.random(count).astype("<f4") / 1000 for count in (rows, width))
        bias, kind = chance.normal(size=width).astype("<f4"), int(chance.integers(0, 3))
        found = multiplied(
            level, guarded, x, weights, zero=zero, kind=kind, ranges=ranges, scales=scales * 100, bias=bias
        )
        wanted = whole * (scales * 100).astype(np.float64) * ranges[:, None].astype(np.float64) + bias
        close(found, activated(kind, wanted), of=1e-4)
        close(found, stock_activated(kind, wanted), of=1e-4)
        assert np.array_equal(
            found, engine_bits.product(whole, ranges, (scales * 100).astype("<f4"), bias, kind)
        )


@pytest.mark.sample(4)
@pytest.mark.parametrize("sign", [1, -1])
def test_sums_of_16_bits_hold_the_largest_pairs(level: Any, sign: int) -> None:
    # 255 x 128 = 32640 is below 2^15, 255 x 129 is not. Of the deepest product that a plan may have, sums stay below 2^31:
    # 131072 / 2 x 255 x 128 = 2.14e9. They are exact in 32 bits: they are a multiple of 128.
    assert 255 * 128 < 2**15 <= 255 * 129
    depth = MOST_DEPTH
    assert depth // 2 * 255 * 128 < 2**31
    weights = np.zeros((depth, 64), np.int8)
    pairs = [(64, 64), (127, 1), (1, 127), (100, 28), (128, 0) if sign < 0 else (127, 1)]
    for column in range(64):
        weights[:, column] = np.tile(pairs[column % len(pairs)], depth // 2).astype(np.int64) * sign
    x = np.full((3, depth), 255, np.uint8)
    for zero in (0, 128):
        found = multiplied(level, Guarded(), x, weights, zero=zero)
        assert np.array_equal(found, ((x.astype(np.int64) - zero) @ weights.astype(np.int64)).astype("<f4"))


@pytest.mark.parametrize("kind", [Activation.GELU, Activation.GELU_TANH, Activation.SILU])
def test_activations(level: Any, kind: Activation) -> None:
    """As numbers.inc says of GELU: 8e-5 off up to 4.15, and 1e-6 of a number beyond. The others are 2e-6 off."""
    numbers = np.concatenate([np.linspace(-6, 6, 400_000), np.linspace(-1e4, 1e4, 20_000)]).astype("<f4")
    guarded = Guarded()
    x = guarded.copy(np.stack([numbers, np.ones_like(numbers)]).reshape(1, -1))
    output = guarded.empty((1, len(numbers)), "<f4")
    call(level.gate, engine.Gating(place(x), place(output), 1, len(numbers), int(kind)))
    with np.errstate(over="ignore"):
        wanted = activated(kind, numbers.astype(np.float64))
    near, far = (8e-5, 1e-6) if kind == Activation.GELU else (2e-6, 4e-7)
    allowed = np.where(np.abs(numbers) <= 4.15, near, np.maximum(near, far * np.abs(numbers)))
    assert (np.abs(output[0] - wanted) <= allowed).all()
    assert np.array_equal(output[0], engine_bits.activated(kind, numbers))


def test_gates(level: Any, shapes: Any) -> None:
    for chance, guarded in shapes:
        rows, width = int(chance.integers(1, 9)), 16 * int(chance.integers(1, 49))
        x, output = normal(chance, guarded, rows, 2 * width), guarded.empty((rows, width), "<f4")
        kind = int(chance.integers(1, 4))
        call(level.gate, engine.Gating(place(x), place(output), rows, width, kind))
        close(output, activated(kind, x[:, :width].astype(np.float64)) * x[:, width:], of=2e-4)
        close(output, stock_activated(kind, x[:, :width]) * x[:, width:], of=2e-4)
        assert np.array_equal(output, engine_bits.activated(kind, x[:, :width]) * x[:, width:])


KINDS = 5
"""Kinds of distances, of each of which queries and keys have a number for each head."""


def attended(
    level: Any, guarded: Guarded, x: Array, *, heads: int, groups: int, size: int, **others: Any
) -> Array:
    """Query, key and value side by side, float32 [tokens, (heads + 2 groups) size]."""
    tokens, stride = x.shape
    keys = others.get("keys", tokens)
    output = x if others.pop("in_place", False) else guarded.empty((tokens, heads * size), "<f4")
    room = guarded.empty((engine.attention_room(tokens, size),), "<f4")
    room[...] = np.nan
    distances = others.get("distances")
    task = engine.Attention(
        place(x),
        place(x[:, heads * size :]),
        place(x[:, (heads + groups) * size :]),
        place(output),
        stride,
        output.shape[1],
        tokens,
        keys,
        heads,
        groups,
        size,
        others.get("radius", 0),
        others.get("causal", False),
        others.get("in_floats", False),
        others.get("scale", size**-0.5),
        place(distances),
        2 * tokens - 1,
        *(place(others.get(name)) for name in ("by_query", "by_key", "kinds")),
        *(heads * KINDS, KINDS),
        place(room),
    )
    call(level.attention, task)
    return output[:, : heads * size]


@pytest.mark.sample(2)
def test_attention(level: Any, shapes: Any) -> None:
    edges = (1, 15, 16, 17, 119, 120, 121, 127, 128, 129, 240, 241, 255, 256, 257, 300)
    for number, (chance, guarded) in enumerate(shapes):
        tokens = edges[number] if number < len(edges) else int(chance.integers(1, 301))
        size, groups = 16 * int(chance.choice([1, 2, 3, 4, 5, 8, 16])), int(chance.integers(1, 3))
        heads = groups * int(chance.integers(1, 3))
        x = normal(chance, guarded, tokens, (heads + 2 * groups) * size, scale=2)
        q, k, v = np.split(x.astype(np.float64).reshape(tokens, -1, size), [heads, heads + groups], axis=1)
        k, v = (np.repeat(each, heads // groups, axis=1) for each in (k, v))
        radius, causal = int(chance.choice([0, 0, 1, 5, 64, 130])), bool(chance.random() < 0.3)
        if tokens == 241:
            radius = 130  # Of the 241st, it begins in another tile than the query's own.
        distances = maybe(chance, normal(chance, guarded, heads, 2 * tokens - 1))
        by = [maybe(chance, normal(chance, guarded, tokens, heads, KINDS)) for _ in range(2)]
        kinds = guarded.copy(chance.integers(0, KINDS, 2 * tokens - 1).astype("<i4"))
        apart = np.arange(tokens)[None] - np.arange(tokens)[:, None]
        scores = np.einsum("qhd,khd->hqk", q, k) * size**-0.5
        added32 = np.zeros(scores.shape, "<f4")
        for numbers, places in zip(by, (np.arange(tokens)[:, None], np.arange(tokens)[None]), strict=True):
            if numbers is not None:
                added32 = added32 + numbers[places, :, kinds[apart + tokens - 1]].transpose(2, 0, 1)
        further = (added32,) if distances is None else (distances[:, apart + tokens - 1], added32)
        scores = scores + np.sum(further, axis=0, dtype=float)
        hidden = (np.abs(apart) > radius) if radius else np.zeros_like(apart, bool)
        keys = tokens if radius or chance.random() < 0.7 else int(chance.integers(1, tokens + 1))
        hidden = hidden | (np.arange(tokens) >= keys)[None]
        weights = np.where(hidden | (apart > 0) & causal, -np.inf, scores)
        weights = np.exp(weights - weights.max(axis=2, keepdims=True))
        wanted = np.einsum("hqk,khd->qhd", weights / weights.sum(axis=2, keepdims=True), v)
        in_floats = number % 3 == 0
        before = x.reshape(tokens, -1, size).copy()
        found = attended(
            level,
            guarded,
            x,
            heads=heads,
            groups=groups,
            size=size,
            radius=radius,
            causal=causal,
            in_floats=in_floats,
            distances=distances,
            by_query=by[0],
            by_key=by[1],
            kinds=kinds,
            keys=keys,
            in_place=chance.random() < 0.5,
        )
        # A score is a sum of up to 256 products of numbers around 2, in 32 bits: 1e-5 off, and so are the weights. In whole
        # numbers, it is the sum of so many that are half a 127th of the largest off.
        off = 1e-5 if in_floats else 0.1
        close(found, wanted.reshape(tokens, -1), of=off)
        if not in_floats:
            parts32 = np.split(before, [heads, heads + groups], axis=1)
            q32, k32, v32 = (np.repeat(each, heads // each.shape[1], axis=1) for each in parts32)
            exact = engine_bits.attention(
                q32,
                k32,
                v32,
                scale=size**-0.5,
                distances=further,
                hidden=hidden | (apart > 0) & causal,
                keys=keys,
            )
            assert np.array_equal(found, exact.reshape(tokens, -1))
        added = np.where(hidden | (apart > 0) & causal, np.float32(-1e30), np.zeros_like(scores))
        added = added + np.sum(further, axis=0, dtype=float)
        parts = {
            name: each.reshape(1, tokens, -1).astype("<f4")
            for name, each in zip("qkv", (q, k, v), strict=True)
        }
        nothing = {f"none {place}": np.zeros(1, "<f4") for place in range(2)}
        stock = computed(
            "MultiHeadAttention",
            {**parts, **nothing, "added": added[None].astype("<f4")},
            num_heads=heads,
        )
        close(found, stock[0], of=off)


def test_exponentials(level: Any) -> None:
    # Two keys of scores 0 and x, with the values 0 and 1: below -17.4 the weights' sum is 1, and the second is the exponential itself.
    guarded = Guarded()
    for score in np.linspace(-87, -17.4, 400).astype("<f4"):
        guarded.clear()
        x = guarded.copy(np.zeros((2, 48), "<f4"))
        x[:, 0], x[1, 16], x[1, 32] = 1, score, 1
        found = attended(level, guarded, x, heads=1, groups=1, size=16, scale=1, in_floats=True)[0, 0]
        exact = np.exp(np.float64(score))
        assert abs(found - exact) <= 2 * np.spacing(np.float32(exact))


def test_rotary_positions_are_the_stock_librarys(level: Any, shapes: Any) -> None:
    for chance, guarded in shapes:
        rows, count, size = (
            int(chance.integers(1, 30)),
            int(chance.integers(1, 5)),
            16 * int(chance.integers(1, 17)),
        )
        stride, before = 16 * int(chance.integers(0, 3)) + count * size, 0
        x = normal(chance, guarded, rows, stride)
        angles = np.arange(rows)[:, None] * chance.random(size // 2)
        turns = guarded.copy(np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype("<f4"))
        positions = guarded.copy(chance.permutation(rows).astype("<u4"))
        heads = x[:, before : count * size].copy()
        rest = x[:, count * size :].copy()
        call(
            level.rotate,
            engine.Heads(place(x), rows, stride, count, size, size, None, 0, place(positions), place(turns)),
        )
        cosines, sines = (each[positions] for each in np.split(turns.astype(np.float64), 2, axis=1))
        one, other = np.split(heads.reshape(rows, count, size), 2, axis=2)
        wanted = np.concatenate(
            [
                one * cosines[:, None] - other * sines[:, None],
                other * cosines[:, None] + one * sines[:, None],
            ],
            axis=2,
        ).reshape(rows, -1)
        close(x[:, : count * size], wanted, of=5e-7)
        assert np.array_equal(x[:, count * size :], rest)
        exact = engine_bits.rotated(
            heads.reshape(rows, count, size),
            *(each[positions][:, None] for each in np.split(turns, 2, axis=1)),
        )
        assert np.array_equal(x[:, : count * size], exact.reshape(rows, -1))
        cosine, sine = (each.copy() for each in np.split(turns, 2, axis=1))
        inputs = {
            "x": heads[None],
            "places": positions.astype(np.int64)[None],
            "cosines": cosine,
            "sines": sine,
        }
        close(x[:, : count * size], computed("RotaryEmbedding", inputs)[0], of=5e-7)


def test_norms_of_heads(level: Any, shapes: Any) -> None:
    for chance, guarded in shapes:
        rows, count, size = (
            int(chance.integers(1, 9)),
            int(chance.integers(1, 5)),
            16 * int(chance.integers(1, 17)),
        )
        stride = count * size + 16 * int(chance.integers(0, 3))
        x, weight = normal(chance, guarded, rows, stride, scale=0.7), normal(chance, guarded, size)
        counted = size - int(chance.choice([0, 0, 1, 9]))
        for head in range(count):
            x[:, head * size + counted : (head + 1) * size] = 0
        before, before32 = x.astype(np.float64), x.copy()
        call(
            level.norm_heads,
            engine.Heads(place(x), rows, stride, count, size, counted, place(weight), 0.5, None, None),
        )
        heads = before[:, : count * size].reshape(rows, count, size)
        wanted = heads / np.sqrt((heads**2).sum(axis=2, keepdims=True) / counted + 0.5) * weight
        close(x[:, : count * size], wanted.reshape(rows, -1), of=1e-6)
        parts = {"x": heads[..., :counted].astype("<f4"), "weight": weight[:counted]}
        stock = computed("SimplifiedLayerNormalization", parts, domain="", epsilon=0.5, axis=-1)
        close(x[:, : count * size].reshape(heads.shape)[..., :counted], stock, of=1e-6)
        heads32 = before32[:, : count * size].reshape(rows, count, size)
        exact = heads32 * engine_bits.root_of(heads32, np.float32(0), 0.5, counted)[..., None] * weight
        assert np.array_equal(x[:, : count * size], exact.reshape(rows, -1))
        assert np.array_equal(x[:, count * size :], before[:, count * size :])
