"""Pickles of strangers: mutated ones of a checkpoint and of heads, and ones made of opcodes by chance.

They are read in this process: what needs the limits of the reader's own program, and not its rules, is a find.
"""

import json
import pickletools
import random
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from edgepack.models.heads.estimator import NAMES as HEAD_NAMES
from edgepack.models.heads.setfit import linear_layer
from edgepack.models.pickles import machine
from edgepack.models.read.pickled import NAMES
from edgepack.models.read.safetensors import open_tensors
from tests.fuzz.readers import PICKLE, Change, mutated, reader_campaign
from tests.fuzz.rounds import Campaign
from tests.support.bombs import BOMBS, HEADS, archive, text, whole
from tests.support.recorded import RECORD
from tests.support.unpickling import read_in_this_process

SMALL = 20_000
"""Bytes of a bomb that is small enough to be mutated many times."""


def read_checkpoint(file: Path) -> None:
    """A pickle as a checkpoint's list of tensors."""
    there = file.with_name("pytorch_model.bin")
    there.write_bytes(archive(file.read_bytes()))
    with read_in_this_process():
        found = open_tensors(there)
    size = there.stat().st_size
    assert all(0 <= each.start <= each.end <= size for each in found.tensors.values())
    require_small(there, NAMES, packed=True)


def read_head(file: Path) -> None:
    with read_in_this_process():
        linear_layer(file)
    require_small(file, HEAD_NAMES, packed=False)


def require_small(file: Path, names: tuple[str, ...], *, packed: bool) -> None:
    """What is given back is no larger than the file allows for, and no deeper than is said."""
    said = machine.answer(str(file), json.dumps({"names": names, "archive": packed}))
    assert len(said) < 100 * machine.ITEMS
    assert depth(json.loads(said)["document"]) <= 2 * machine.DEPTH + 4


def depth(value: Any) -> int:
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


def trained_head() -> bytes:
    """A classifier of scikit-learn's, as joblib writes it, recorded: ``judge_unpickled.py`` reads it."""
    return (RECORD / "model_head.pkl").read_bytes()


CODES = [code.code.encode("latin1") for code in pickletools.opcodes]


def operands(chance: random.Random) -> list[bytes]:
    name = chance.choice((*NAMES, *HEAD_NAMES, "os.system"))
    module, _, kind = name.rpartition(".")
    number = chance.choice((0, 1, 2, 7, 255, 1 << 31, (1 << 61) - 1, 1 << 63, -1))
    return [
        f"c{module}\n{kind}\n".encode(),
        text(chance.choice((module, kind, "shape", "dtype", "f8", "storage", "latin1", "coef_", "content"))),
        whole(number),
        b"K" + bytes([chance.randrange(4)]),
        bytes([chance.choice(b"qh"), chance.randrange(4)]),
        b"C" + bytes([3]) + b"abc",
        b"G" + struct.pack(">d", chance.choice((0.0, float("nan"), float("inf"), 1e300))),
    ]


def made_of_opcodes(seed: bytes, chance: random.Random) -> bytes:
    """A sound pickle's beginning, and opcodes by chance behind it; or these alone."""
    start = seed[: chance.randrange(len(seed))] if chance.random() < 0.5 else b"\x80\x02"
    made = [start]
    for _ in range(chance.randrange(1, 60)):
        kind = chance.random()
        if kind < 0.5:
            made.append(chance.choice(operands(chance)))
        elif kind < 0.95:
            made.append(chance.choice((b"(", b")", b"}", b"]", b"t", b"\x85", b"\x86", b"R", b"\x81", b"b", b"s", b"u", b"a", b"e", b"Q", b"N", b"\x94")))  # fmt: skip
        else:
            made.append(chance.choice(CODES))
    return b"".join((*made, b"."))


def spliced(seed: bytes, chance: random.Random) -> bytes:
    """Whole opcodes exchanged, repeated, left out or put in from elsewhere."""
    try:
        places = [at for _, _, at in pickletools.genops(seed) if at is not None]
    except ValueError:
        return mutated(seed, chance)
    parts = [seed[start:end] for start, end in zip(places, (*places[1:], None), strict=True)]
    for _ in range(chance.randint(1, 4)):
        at, other = chance.randrange(len(parts)), chance.randrange(len(parts))
        kind = chance.randrange(5)
        if kind == 0:
            parts[at] = parts[other]
        elif kind == 1 and len(parts) > 2:
            del parts[at]
        elif kind == 2:
            parts[at:at] = parts[other : other + chance.randint(1, 8)] * chance.choice((1, 1, 2, 40))
        elif kind == 3:
            parts[at] = chance.choice(operands(chance))
        elif kind == 4:
            parts[at], parts[other] = parts[other], parts[at]
    return b"".join(parts)


READERS: Mapping[str, tuple[Callable[[Path], None], Callable[[], bytes]]] = {
    "data.pkl": (read_checkpoint, lambda: PICKLE),
    "model_head.pkl": (read_head, trained_head),
    **{
        f"bomb {at} data.pkl": (read_checkpoint, partial(bytes, bomb))
        for at, bomb in enumerate(BOMBS.values())
        if len(bomb) < SMALL
    },
    **{
        f"bomb {at} model_head.pkl": (read_head, partial(bytes, bomb))
        for at, bomb in enumerate(HEADS.values())
        if len(bomb) < SMALL
    },
}
CHANGES: tuple[Change, ...] = (mutated, spliced, made_of_opcodes)


def campaigns(folder: Path) -> Iterator[Campaign]:
    for name, (read, make) in READERS.items():
        for change in CHANGES:
            # Bombs are some forty, and each a small variation of the two that are sound.
            part = 20 if name.startswith("bomb") else 1
            said = f"{name}, {change.__name__}"
            yield reader_campaign(said, read, make(), folder / name, change, part=part)
