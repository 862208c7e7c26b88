"""transformers, as the judge of what is recorded, and of what is too large or too particular to be recorded."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import model2vec
import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.base.modules import Transformer

from edgepack.records.model import Pooling
from tests.support import recorded
from tests.support.berts import Tokens, Vectors
from tests.support.checkpoints import write_encoder
from tests.support.families import family_of
from tests.support.recorded import (
    Case,
    Form,
    Ids,
    Judged,
    MissingRecordError,
    Numbers,
    recorded_answer,
    save_model,
)
from tests.support.tiny import write_json

NEAR = 5e-6
"""How far a number may be from the recorded one, by the largest of its array."""


def new_model(form: Form) -> Any:
    """A torch model of this form, with whatever weights transformers begins with."""
    family = family_of(form.kind)
    torch.manual_seed(1)
    config = getattr(transformers, family.config)(**{**family.small, **json.loads(form.changes)})
    config._attn_implementation = "eager"
    kind = family.model.removesuffix("Model") + form.head if form.head else family.model
    return getattr(transformers, kind)(config).eval()


def save(model: Any, folder: Path, kind: str) -> None:
    """What transformers saves of a model of a family."""
    model.save_pretrained(folder)
    if family_of(kind).called:
        written = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        write_json(folder / "config.json", {**written, "model_type": family_of(kind).called})


def save_family(folder: Path, kind: str, fill: Callable[[str, Any], None], shape: dict[str, Any]) -> Any:
    """What transformers saves of a model of this shape, and the torch model; ``fill`` is given each weight by its name."""
    model = new_model(Form(kind=kind, changes=json.dumps(shape)))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            fill(name, weight)
    save(model, folder, kind)
    return model


def torch_model(judged: Judged) -> Any:
    """The torch model that transformers loads from a folder, in which no tensor is missing and none is too many."""
    family = family_of(judged.form.kind)
    kind = family.model.removesuffix("Model") + judged.form.head if judged.form.head else family.model
    config = getattr(transformers, family.config).from_pretrained(judged.folder)
    # By it transformers finds the names that tensors have in files.
    config.model_type = type(config).model_type
    model, said = getattr(transformers, kind).from_pretrained(
        judged.folder,
        config=config,
        attn_implementation="eager",
        dtype=torch.float32,
        output_loading_info=True,
    )
    assert not any(said.values()), said
    return model.eval()


def save_modules(folder: Path, *behind: Any, **settings: Any) -> Path:
    """What sentence-transformers saves of a bare BERT with these modules behind it."""
    encoder = Transformer(str(write_encoder(folder.with_name(f"{folder.name}.encoder"))))
    model = SentenceTransformer(modules=[encoder, *behind], device="cpu", **settings)
    model.save(str(folder), create_model_card=False)
    return folder


def computed(case: Case, given: Ids, folder: Path) -> Numbers:
    """What transformers makes of these tokens, int64 [3, batch, sequence]; the model is written into ``folder``."""
    return answer(torch_model(save_model(folder, case.form, case.weights)), case, given)


def answer(model: Any, case: Case, given: Ids) -> Numbers:
    """What a torch model makes of int64 [3, batch, sequence]."""
    ids, mask, types = (torch.tensor(each) for each in given)
    inputs = {"input_ids": ids, "attention_mask": mask}
    if family_of(case.form.kind).types:
        inputs["token_type_ids"] = types
    with torch.no_grad():
        made = model(**inputs)
        said = made.logits if case.what == "logits" else pooled(case.what, made.last_hidden_state, mask)
    numbers: Numbers = said.numpy().astype(np.float32)
    return numbers


def pooled(what: str, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """As sentence-transformers pools, and not normalised."""
    if what == "hidden":
        return hidden
    if what == "cls":
        return hidden[:, 0]
    places = mask.cumsum(1) * mask
    if what == "last":
        return hidden[torch.arange(len(hidden)), places.argmax(1)]
    weights = (places if what == "weighted-mean" else mask)[..., None].float()
    made: torch.Tensor = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
    return made


def torch_vectors(model: Any, tokens: Tokens, pooling: Pooling, *, types: bool = False) -> Vectors:
    """Vectors by a torch model, pooled as sentence-transformers does it; float32 [batch, dimension]."""
    mask = torch.tensor(tokens.mask)
    given = {"input_ids": torch.tensor(tokens.ids), "attention_mask": mask}
    if types:
        given["token_type_ids"] = torch.tensor(tokens.types)
    with torch.no_grad():
        made = pooled(str(pooling.mode), model(**given).last_hidden_state, mask)
        if pooling.normalize:
            made = torch.nn.functional.normalize(made, dim=1)
    vectors: Vectors = made.numpy()
    return vectors


def static_vectors(folder: Path, texts: Sequence[str]) -> Numbers:
    """By sentence-transformers, float32 [texts, dimension]."""
    found: Numbers = SentenceTransformer(str(folder), device="cpu").encode(list(texts))
    return found


def model2vec_vectors(folder: Path, texts: Sequence[str]) -> Numbers:
    """By model2vec, in the type of the model's table."""
    found: Numbers = model2vec.StaticModel.from_pretrained(folder, force_download=False).encode(list(texts))
    return found


def multi_vectors(folder: Path, texts: Sequence[str], query: bool) -> Numbers:
    """By sentence-transformers, those of all tokens of all texts, float32 [tokens, dimension]."""
    model = MultiVectorEncoder(str(folder), device="cpu", model_kwargs={"attn_implementation": "eager"})
    made = (model.encode_query if query else model.encode_document)(list(texts))
    return np.concatenate([np.asarray(each) for each in made])


class Comparing:
    """Asks the judges again, who have to say what is recorded."""

    def model(self, form: Form) -> dict[str, Any]:
        raise MissingRecordError(form)

    def numbers(self, case: Case, given: Ids) -> Numbers:
        raise MissingRecordError(case)

    def other(self, question: str, key: str, *given: Any) -> Numbers:
        found: Numbers = globals()[question](*given)
        with suppress(MissingRecordError):
            require_same(found, recorded_answer(question, key))
        return found


@pytest.fixture(autouse=True)
def asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """For files that run tests of the first tier with the judges themselves."""
    monkeypatch.setattr(recorded, "RECORDERS", [Comparing()])


def require_same(found: Numbers, recorded: Numbers) -> None:
    """The same but for the last bits, in which processors differ."""
    assert found.shape == recorded.shape
    assert np.abs(found - recorded).max(initial=0) <= NEAR * max(1, np.abs(recorded).max(initial=0))
