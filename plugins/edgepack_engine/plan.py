"""The plan as it ships: steps, the buffers between them, and weights as the kernels read them. ``csrc/plan.h`` has the same records."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

NOTHING = 0xFFFFFFFF
PANEL, DEPTH = 16, 4
"""Columns and rows of weights that lie together."""
WIDTH = 64
"""Columns of a product are a multiple of it, and what is quantized a multiple of ``PANEL``."""
MOST_DEPTH = 1 << 17
"""Rows of a product's weights, at most: with pairs of weights up to ``WIDEST_PAIR``, its sums stay below 2^31."""
WIDEST_PAIR = 128
"""Two neighbouring weights together, at most: bytes up to 255 times both stay within 16 bits, in which processors without VNNI add pairs."""
MOST_SIZE = 512
"""Numbers of a head, at most."""
MOST_BYTES = 1 << 22
"""Of all buffers for one token, at most."""
MAGIC = b"EDGEPLN2"
HEADER = struct.Struct("<8sQ8I2Q")
_BUFFER = struct.Struct("<4I")
STEP = struct.Struct("<2I3I3I8I2f4Q")
STEP_SIZES, STEP_TENSORS = 8, 18
"""Where in a step's record its sizes and its tensors' places begin."""
_ALIGNMENT = 64


class Operation(IntEnum):
    """Kind of step."""

    LOOKUP = 1
    NORM = 2
    QUANTIZE = 3
    PRODUCT = 4
    ATTENTION = 5
    GATE = 6
    ROTATE = 7
    NORM_HEADS = 8
    POOL = 9
    UNIT = 10
    GIVE = 11
    ALTER = 12
    COMBINE = 13
    SHARES = 14


SELDOM = (Operation.ALTER, Operation.COMBINE, Operation.SHARES)
"""What only programs for plans that have it can do."""


class Activation(IntEnum):
    """Activation of the sums of a product, or of one half of a gate's."""

    LINEAR = 0
    GELU = 1
    GELU_TANH = 2
    SILU = 3


class Function(IntEnum):
    """Functions of each number; parameters are the step's numbers."""

    SCALED = 0
    RAISED = 1
    CLIPPED = 2
    LEAKY = 3
    SHRUNK = 4
    HARD_SIGMOID = 5
    TANH = 6
    SIGMOID = 7
    EXACT_GELU = 8
    ELU = 9
    SOFTPLUS = 10
    SOFTSIGN = 11
    LOG = 12


class Combination(IntEnum):
    """Functions of two numbers."""

    ADDED = 0
    SUBTRACTED = 1
    TIMES = 2


class Pooled(IntEnum):
    """Ways to make a text's numbers of those of its tokens."""

    MEAN = 0
    FIRST = 1
    LAST = 2
    LARGEST = 3
    ROOT = 4
    """Their sum over the root of their count."""
    RISING = 5
    """Their mean, each as often as its place, from 1 on."""
    SUM = 6


class Rows(IntEnum):
    """Key that a row is looked up by."""

    TOKENS = 0
    TYPES = 1
    POSITIONS = 2
    COUNTED = 3


class Flag(IntFlag):
    """How a step does it."""

    NONE = 0
    ACCUMULATED = 1
    UNSIGNED = 2
    WITHOUT_MEAN = 4
    CAUSAL = 8
    IN_FLOATS = 16


@dataclass(eq=False, kw_only=True)
class Buffer:
    """Numbers of each token, or of a text: float32 (4 bytes) or, with a range a row, uint8."""

    width: int
    bytes: int = 4
    places: npt.NDArray[np.intp] | None = None
    """Where the numbers that count lie, in their order; the others are 0. None: all count."""

    @property
    def counted(self) -> int:
        """How many count."""
        return self.width if self.places is None else len(self.places)

    def spread(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Numbers of the last axis where they lie here, zeros beside them."""
        if self.places is None:
            return numbers
        made = np.zeros((*numbers.shape[:-1], self.width), numbers.dtype)
        made[..., self.places] = numbers
        return made


def rounded(count: int, to: int) -> int:
    """The next multiple."""
    return -(-count // to) * to


def in_front(count: int, width: int) -> npt.NDArray[np.intp] | None:
    """The places of so many numbers that lie before what does not count; none where all count."""
    return None if count == width else np.arange(count)


@dataclass(kw_only=True)
class Step:
    """A step while the plan is written; ``tensors`` are arrays, or none. What a later step wants of a norm is added to its outputs."""

    operation: Operation
    flags: Flag = Flag.NONE
    inputs: Sequence[Buffer | int | None] = ()
    outputs: list[Buffer | None]
    sizes: Sequence[int] = ()
    numbers: Sequence[float] = ()
    tensors: list[npt.NDArray[Any] | None]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Plan: the steps of a model's computation."""

    steps: tuple[Step, ...]
    """Of all tokens."""
    pooled: tuple[Step, ...]
    """Of a text: up to the last POOL of its tokens, and behind that of itself."""
    vector: Buffer
    """A text's."""
    dimension: int
    """How many of its first numbers are given."""
    longest: int
    """Tokens of a text, at most."""
    given: int = 0
    """Numbers that GIVE gives for each token."""


def packed(weights: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """Weights [depth, width] as [width / 16, depth / 4, 16, 4]: what one instruction multiplies lies together."""
    depth, width = weights.shape
    return np.ascontiguousarray(
        weights.reshape(depth // DEPTH, DEPTH, width // PANEL, PANEL).transpose(2, 0, 3, 1)
    )


def write_plan(plan: Plan, destination: Path) -> None:
    buffers, places = shared_buffers(plan)
    content = bytearray(HEADER.size)

    def put(raw: bytes) -> int:
        content.extend(bytes(-len(content) % _ALIGNMENT))
        place = len(content)
        content.extend(raw)
        return place

    known: dict[int, int] = {}
    records = []
    for step in (*plan.steps, *plan.pooled):
        tensors = []
        for tensor in step.tensors:
            if tensor is not None and id(tensor) not in known:
                known[id(tensor)] = put(np.ascontiguousarray(tensor).tobytes())
            tensors.append(0 if tensor is None else known[id(tensor)])
        inputs = [_index(each, places) for each in step.inputs]
        outputs = [_index(each, places) for each in step.outputs]
        records.append(
            STEP.pack(
                step.operation,
                step.flags,
                *_filled(inputs, 3, NOTHING),
                *_filled(outputs, 3, NOTHING),
                *_filled(step.sizes, 8, 0),
                *_filled(step.numbers, 2, 0.0),
                *_filled(tensors, 4, 0),
            )
        )
    buffers_at = put(b"".join(_BUFFER.pack(*each, 0) for each in buffers))
    steps_at = put(b"".join(records))
    content.extend(bytes(-len(content) % _ALIGNMENT))
    content[: HEADER.size] = HEADER.pack(
        MAGIC,
        len(content),
        len(records),
        len(buffers),
        places[plan.vector],
        len(plan.steps),
        plan.given,
        plan.dimension,
        plan.longest,
        0,
        buffers_at,
        steps_at,
    )
    destination.write_bytes(bytes(content))


def _index(one: Buffer | int | None, places: dict[Buffer, int]) -> int:
    return NOTHING if one is None else places[one] if isinstance(one, Buffer) else int(one)


def _filled(values: Iterable[Any], count: int, filler: Any) -> Iterator[Any]:
    found = list(values)
    yield from (*found, *[filler] * (count - len(found)))


def shared_buffers(plan: Plan) -> tuple[list[tuple[int, int, int]], dict[Buffer, int]]:
    """Buffers of the file (width, bytes, kept) and which of them each of the plan's is: one whose numbers nobody reads any more is used again.

    What is written in one stretch between attentions and read in another is kept for all tokens; the rest only for the few
    that are computed together. Texts are pooled in a stretch that is computed several times a text: none of its buffers is used again for what
    is pooled.
    """
    written: dict[Buffer, tuple[int, int]] = {}
    read: dict[Buffer, int] = {}
    crossing: set[Buffer] = set()
    stretch = 0
    begin = len(plan.steps)
    for number, step in enumerate((*plan.steps, *plan.pooled)):
        stretch += number == begin
        if step.operation == Operation.ATTENTION:
            stretch += 1
        for buffer in (each for each in step.inputs if isinstance(each, Buffer)):
            read[buffer] = number
            if written[buffer][1] != stretch:
                crossing.add(buffer)
        for buffer in (each for each in step.outputs if each is not None):
            written.setdefault(buffer, (begin if step.operation == Operation.POOL else number, stretch))
            read[buffer] = max(number, read.get(buffer, 0))
        if step.operation == Operation.ATTENTION:
            crossing.update(each for each in step.outputs if each is not None)
            stretch += 1
    read[plan.vector] = begin + len(plan.pooled)
    kinds: list[tuple[int, int, int]] = []
    busy: list[int] = []
    places: dict[Buffer, int] = {}
    for buffer, (number, _) in sorted(written.items(), key=lambda item: item[1]):
        kind = (buffer.width, buffer.bytes, int(buffer in crossing))
        free = [
            at
            for at, (each, until) in enumerate(zip(kinds, busy, strict=True))
            if each == kind and until < number
        ]
        if not free:
            kinds.append(kind)
            busy.append(0)
            free = [len(kinds) - 1]
        places[buffer] = free[0]
        busy[free[0]] = read[buffer]
    return kinds, places
