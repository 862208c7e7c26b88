"""Models of strangers that give something else than one vector a text, read as `edgepack bundle` does: SPLADE and ColBERT."""

import copy
import json
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from edgepack.console import Story
from edgepack.files.store import Store
from edgepack.models.find.source import ingest
from edgepack.plugins.context import host_context
from tests.fuzz.readers import mutated, try_reader
from tests.fuzz.rounds import Campaign, for_seconds
from tests.support.tiny import write_json
from tests.unit.models.outputs.test_colbert import write_pylate
from tests.unit.models.outputs.test_splade import write_masked


def write_splade(folder: Path) -> None:
    """A small masked language model with modules.json, as sentence-transformers saves it."""
    write_masked(folder, "bert")
    (folder / "1_SpladePooling").mkdir()
    write_json(
        folder / "1_SpladePooling" / "config.json", {"pooling_strategy": "max", "activation_function": "relu"}
    )
    modules = [
        {
            "idx": 0,
            "name": "0",
            "path": "",
            "type": "sentence_transformers.sparse_encoder.models.MLMTransformer",
        },
        {
            "idx": 1,
            "name": "1",
            "path": "1_SpladePooling",
            "type": "sentence_transformers.sparse_encoder.models.SpladePooling",
        },
    ]
    write_json(folder / "modules.json", modules)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 30, "do_lower_case": False})


def write_colbert(folder: Path) -> None:
    """A small multi-vector model as PyLate saves it."""
    write_pylate(folder, skiplist_words=["hello", ","])


WRITERS: Mapping[str, Callable[[Path], object]] = {"splade": write_splade, "colbert": write_colbert}
SETTINGS = ("config.json", "modules.json", "sentence_bert_config.json", "tokenizer_config.json")
FILES: Mapping[str, tuple[str, ...]] = {
    "splade": (*SETTINGS, "1_SpladePooling/config.json", "model.safetensors"),
    "colbert": (
        *SETTINGS,
        "config_sentence_transformers.json",
        "1_Dense/config.json",
        "1_Dense/model.safetensors",
    ),
}


ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1 << 70,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "../../x",
    "\ud800",
    [],
    [[]],
    {},
    {"x": 1},
)


def changed(seed: bytes, chance: random.Random) -> bytes:
    """A value of a JSON document replaced by an odd one, or a few bytes changed."""
    if chance.random() < 0.3 or not seed.startswith((b"{", b"[")):
        return mutated(seed, chance)
    document = json.loads(seed)
    for _ in range(chance.randint(1, 2)):
        at = document
        while True:
            keys = list(at) if isinstance(at, dict) else [*range(len(at))]
            if not keys:
                break
            key = chance.choice(keys)
            if isinstance(at[key], dict | list) and chance.random() < 0.8:
                at = at[key]
                continue
            at[key] = copy.deepcopy(chance.choice(ODD))
            break
    return json.dumps(document).encode()


def read_model(folder: Path) -> None:
    """What is found in a folder, before anything is made of it."""
    with TemporaryDirectory() as cache:
        store = Store(root=Path(cache))
        with host_context(story=Story(quiet=True), offline=True, store=store) as context:
            ingest(str(folder), context=context)


def fuzz(sound: Path, work: Path, name: str, *, rounds: Iterable[object], number: int) -> int:
    """How often a file of a copy of a sound model was changed and the model read."""
    folder = work / "model"
    shutil.copytree(sound, folder)
    file = folder / name
    return try_reader(
        lambda _: read_model(folder), file.read_bytes(), file, rounds=rounds, number=number, change=changed
    )


def campaigns(folder: Path) -> Iterator[Campaign]:
    for kind, write in WRITERS.items():
        write(folder / kind)
        for name in FILES[kind]:

            def run(seconds: float, number: int, kind: str = kind, name: str = name) -> int:
                work = folder / f"{kind}-{name.replace('/', '-')}"
                return fuzz(folder / kind, work, name, rounds=for_seconds(seconds), number=number)

            yield f"{kind}: {name}", run
