"""Records what tests ask of transformers: ``python -m tests.support.recorder [TEST_FILE ...] [OPTION_OF_PYTEST ...]``.

With files, these are run, and what they ask for and the record lacks is added. Without, transformers is asked anew for all
that is recorded of its models.
"""

import json
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from tests.support import judges, recorded
from tests.support.judges import computed, new_model, save
from tests.support.recorded import (
    BETWEEN,
    MODELS,
    OTHERS,
    RECORD,
    TOKENS,
    Case,
    Form,
    Ids,
    Numbers,
    apply,
    read_arrays,
)


@dataclass
class Asking:
    """Asks transformers, and remembers what it said."""

    models: dict[str, Any] = field(default_factory=dict)
    """In full."""
    said: dict[str, dict[str, Numbers]] = field(default_factory=lambda: defaultdict(dict))
    given: dict[str, Ids] = field(default_factory=dict)

    def model(self, form: Form) -> dict[str, Any]:
        if str(form) not in self.models:
            self.models[str(form)] = saved(form)
        return dict(self.models[str(form)])

    def numbers(self, case: Case, given: Ids) -> Numbers:
        known = self.said[case.form.kind]
        if str(case) not in known:
            with tempfile.TemporaryDirectory() as folder:
                known[str(case)] = computed(case, given, Path(folder))
        self.given[case.tokens] = given
        return known[str(case)]

    def other(self, question: str, key: str, *given: Any) -> Numbers:
        known, name = self.said[OTHERS], BETWEEN.join((question, key))
        if name not in known:
            known[name] = getattr(judges, question)(*given)
        return known[name]


def saved(form: Form) -> dict[str, Any]:
    """What transformers saves of a model: its config.json, the shapes of its tensors, and those that are no weights."""
    model = new_model(form)
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder), form.kind)
        config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        del config["transformers_version"]
        with safe_open(Path(folder) / "model.safetensors", "numpy") as file:
            shapes = {name: file.get_slice(name).get_shape() for name in sorted(file.keys())}
            constants = {name: file.get_tensor(name) for name, _ in model.named_buffers() if name in shapes}
    assert all(each.min() == each.max() for each in constants.values()), constants
    found = {"config": config, "tensors": shapes}
    return {**found, "constants": {name: float(each.min()) for name, each in constants.items()}}


def shortened(models: dict[str, Any]) -> dict[str, Any]:
    """Each model as what differs from the first of its class, where that is shorter."""
    first: dict[str, str] = {}
    entries: dict[str, Any] = {}
    for name, model in sorted(
        models.items(), key=lambda item: (item[0].split(" ")[0], len(item[0]), item[0])
    ):
        base = first.setdefault(name.split(" ")[0], name)
        entries[name] = model if base == name else _difference(models[base], model, base)
        assert apply(entries[name], entries) == model, name
    return entries


def _difference(base: dict[str, Any], model: dict[str, Any], like: str) -> dict[str, Any]:
    parts = ("config", "tensors", "constants")
    changed = {
        part: {key: value for key, value in model[part].items() if base[part].get(key, "") != value}
        for part in parts
    }
    less = sorted(key for part in parts for key in base[part] if key not in model[part])
    return {
        "like": like,
        **{part: each for part, each in changed.items() if each},
        **({"less": less} if less else {}),
    }


def write(asked: Asking) -> None:
    """Into ``RECORD``, the same bytes for the same answers."""
    RECORD.mkdir(parents=True, exist_ok=True)
    lines = [f"{json.dumps(name)}: {json.dumps(each)}" for name, each in shortened(asked.models).items()]
    MODELS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    for kind, said in asked.said.items():
        np.savez_compressed(RECORD / f"numbers-{kind}.npz", **dict(sorted(said.items())))  # type: ignore[arg-type]
    whole = {key: each.astype(np.int32) for key, each in sorted(asked.given.items())}
    np.savez_compressed(TOKENS, **whole)  # type: ignore[arg-type]


def kept() -> Asking:
    """What is recorded."""
    models = recorded._models()
    asked = Asking(models={name: apply(each, models) for name, each in models.items()})
    for file in RECORD.glob("numbers-*.npz"):
        asked.said[file.stem.partition("-")[2]].update(read_arrays(file))
    asked.given.update(read_arrays(TOKENS))
    return asked


def asked_anew() -> Asking:
    """All that is recorded, once more."""
    before, asked = kept(), Asking()
    recorded.RECORDERS[:] = [asked]
    recorded._models.cache_clear()
    MODELS.unlink(missing_ok=True)
    for name in before.models:
        asked.model(Form.read(name))
    # What judges were asked for with folders is asked for by tests.
    asked.said[OTHERS] = before.said.pop(OTHERS, {})
    for said in before.said.values():
        for case in map(Case.read, said):
            asked.numbers(case, before.given[case.tokens].astype(np.int64))
    return asked


def main(*tests: str) -> int:
    if not tests:
        write(asked_anew())
        return 0
    asked = kept()
    recorded.RECORDERS[:] = [asked]
    code = pytest.main(["-q", "-p", "no:xdist", "-W", "ignore", *tests])
    write(asked)
    return int(code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
