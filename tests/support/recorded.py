"""Models with random weights, and what transformers makes of them, without transformers: from a record.

``tests/golden/judges/models.json`` holds what transformers saves of each model, config.json and the shapes of the tensors;
the weights are drawn here. ``numbers-KIND.npz`` holds what transformers computes with them, ``tokens.npz`` what it was
given. ``judge_recorded.py`` compares all of it with transformers; ``tests.support.recorder`` writes it.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from tests.support.golden import ROOT

Numbers = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]

RECORD = ROOT / "tests" / "golden" / "judges"
MODELS, TOKENS = RECORD / "models.json", RECORD / "tokens.npz"
OTHERS = "others"
BETWEEN = " | "
"""Between the parts of a case's key."""


@dataclass(frozen=True, kw_only=True)
class Weights:
    """How weights are drawn, from a generator for each tensor."""

    seed: int = 1
    std: float = 0.3
    """Wide enough that attention is sharp and every nonlinearity is felt. 0: as transformers begins a training."""
    norm: float = 1.0
    """About what the weights of norms are."""

    def __str__(self) -> str:
        return f"std {self.std:g} norm {self.norm:g} seed {self.seed}"

    def drawn(self, name: str, shape: Sequence[int]) -> Numbers:
        """The tensor of a name."""
        random = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
        is_norm = "norm" in name.lower() and name.endswith("weight")
        if self.std:
            return random.normal(self.norm if is_norm else 0.0, self.std, tuple(shape)).astype(np.float32)
        if is_norm or name.endswith("bias"):
            return np.full(tuple(shape), float(is_norm), np.float32)
        return random.normal(0.0, 0.02, tuple(shape)).astype(np.float32)

    @staticmethod
    def read(text: str) -> "Weights":
        """Of the words that ``str`` makes of them."""
        _, std, _, norm, _, seed = text.split()
        return Weights(seed=int(seed), std=float(std), norm=float(norm))


@dataclass(frozen=True, kw_only=True)
class Form:
    """A model's classes and sizes: all of it but the weights."""

    kind: str
    """A key of ``families.FAMILIES``."""
    head: str = ""
    """What transformers' class has in place of ``Model``, e.g. ``ForMaskedLM``."""
    changes: str = "{}"
    """What differs from the family's small shape, as JSON."""

    def __str__(self) -> str:
        return f"{self.kind}{self.head and f'/{self.head}'} {self.changes}"

    @staticmethod
    def read(text: str) -> "Form":
        """Of the words that ``str`` makes of it."""
        called, _, changes = text.partition(" ")
        kind, _, head = called.partition("/")
        return Form(kind=kind, head=head, changes=changes)


def form_of(kind: str, shape: Mapping[str, Any], *, head: str = "") -> Form:
    """The form of a family's small shape with these changes."""
    return Form(kind=kind, head=head, changes=json.dumps(dict(shape), sort_keys=True))


@dataclass(frozen=True, kw_only=True)
class Case:
    """A question to transformers: which numbers a model makes of which tokens."""

    form: Form
    weights: Weights
    what: str
    """``cls``, ``mean``, ``last`` and ``weighted-mean`` pool; ``hidden`` is every token's vector; ``logits`` a head's numbers."""
    tokens: str
    """A key of ``TOKENS``."""

    def __str__(self) -> str:
        return BETWEEN.join((str(self.form), str(self.weights), self.what, self.tokens))

    @staticmethod
    def read(key: str) -> "Case":
        """Of the words that ``str`` makes of it."""
        form, weights, what, tokens = key.split(BETWEEN)
        return Case(form=Form.read(form), weights=Weights.read(weights), what=what, tokens=tokens)


class Recorder(Protocol):
    """Who asks transformers for what the record lacks."""

    def model(self, form: Form) -> dict[str, Any]:
        """``config``, and the shapes of the ``tensors``, and the ``constants`` among them."""

    def numbers(self, case: Case, given: Ids) -> Numbers:
        """What the model makes of int64 [3, batch, sequence]: ids, mask, types."""

    def other(self, question: str, key: str, *given: Any) -> Numbers:
        """What a function of ``tests.support.judges`` answers."""


RECORDERS: list[Recorder] = []
"""The one at work; without one, what the record lacks is an error."""


class MissingRecordError(Exception):
    """A test asks for what nobody recorded."""

    def __init__(self, what: object) -> None:
        super().__init__(
            f"{RECORD.relative_to(ROOT)} has no {what}; with the judges installed, "
            "`python -m tests.support.recorder TEST_FILE` records what a test asks for"
        )


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A model that transformers has been asked about."""

    form: Form
    weights: Weights
    folder: Path

    def says(self, what: str, *, ids: Ids, mask: Ids, types: Ids) -> Numbers:
        """What transformers computes, float32, from int64 [batch, sequence] each; ``what`` as in ``Case``."""
        given = np.stack([ids, mask, types]).astype(np.int64)
        case = Case(form=self.form, weights=self.weights, what=what, tokens=tokens_key(given))
        found = _numbers(self.form.kind).get(str(case))
        if found is not None:
            return found
        if not RECORDERS:
            raise MissingRecordError(case)
        return RECORDERS[0].numbers(case, given)


def answer(question: str, key: str, *given: Any) -> Numbers:
    """What a judge's library answers, recorded under a key: a function of ``tests.support.judges``, and what it is given."""
    if RECORDERS:
        return RECORDERS[0].other(question, key, *given)
    return recorded_answer(question, key)


def recorded_answer(question: str, key: str) -> Numbers:
    """What is recorded."""
    found = _numbers(OTHERS).get(BETWEEN.join((question, key)))
    if found is None:
        raise MissingRecordError(f"{question} of {key}")
    return found


def tokens_key(given: Ids) -> str:
    """Lengths of the texts, and a checksum: ``9+5+1+12 tokens 1a2b3c4d``."""
    lengths = given[1].sum(axis=1).tolist()
    checksum = zlib.crc32(repr(given.shape).encode() + given.astype("<i8").tobytes())
    return f"{'+'.join(map(str, lengths))} tokens {checksum:08x}"


def save_model(folder: Path, form: Form, weights: Weights) -> Judged:
    """Write config.json and model.safetensors as transformers does."""
    model = recorded_model(form)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(model["config"], indent=2), encoding="utf-8")
    tensors = {name: weights.drawn(name, shape) for name, shape in model["tensors"].items()}
    for name, value in model.get("constants", {}).items():
        tensors[name] = np.full_like(tensors[name], value)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return Judged(form=form, weights=weights, folder=folder)


def recorded_model(form: Form) -> dict[str, Any]:
    """What transformers saves of a model; one of another vocabulary differs in its size alone."""
    changes = json.loads(form.changes)
    if words := changes.pop("vocab_size", None):
        model = recorded_model(form_of(form.kind, changes, head=form.head))
        few = model["config"]["vocab_size"]
        sizes = {
            name: [words if size == few else size for size in shape]
            for name, shape in model["tensors"].items()
        }
        return {**model, "config": {**model["config"], "vocab_size": words}, "tensors": sizes}
    models = _models()
    if str(form) not in models:
        if not RECORDERS:
            raise MissingRecordError(f"model {form}")
        return RECORDERS[0].model(form)
    return apply(models[str(form)], models)


def apply(entry: Mapping[str, Any], models: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of the record in full: most say only what differs from another one."""
    if "like" not in entry:
        return dict(entry)
    made = dict(models[entry["like"]])
    for part in ("config", "tensors", "constants"):
        kept = {key: value for key, value in made.get(part, {}).items() if key not in entry.get("less", ())}
        made[part] = {**kept, **entry.get(part, {})}
    return made


@cache
def _models() -> dict[str, Any]:
    return dict(json.loads(MODELS.read_text(encoding="utf-8"))) if MODELS.is_file() else {}


@cache
def _numbers(kind: str) -> dict[str, Numbers]:
    return read_arrays(RECORD / f"numbers-{kind}.npz")


def read_arrays(file: Path) -> dict[str, Any]:
    """All arrays of a file of NumPy's; none where there is none."""
    if not file.is_file():
        return {}
    with np.load(file) as found:
        return dict(found)
