"""What is recorded of transformers is what it says today: of each model what it saves, and of each question the numbers."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.support.judges import answer, require_same, torch_model
from tests.support.recorded import (
    MODELS,
    OTHERS,
    RECORD,
    TOKENS,
    Case,
    Form,
    Weights,
    read_arrays,
    recorded_model,
    save_model,
    tokens_key,
)
from tests.support.recorder import saved

GIVEN = read_arrays(TOKENS)
SAID = {
    key: numbers
    for file in sorted(RECORD.glob("numbers-*.npz"))
    if file.stem != f"numbers-{OTHERS}"
    for key, numbers in read_arrays(file).items()
}
ASKED = sorted({(str(case.form), str(case.weights)) for case in map(Case.read, SAID)})


@pytest.mark.parametrize("form", json.loads(MODELS.read_text()))
def test_a_model_is_saved_as_recorded(form: str) -> None:
    assert saved(Form.read(form)) == {"constants": {}, **recorded_model(Form.read(form))}


@pytest.mark.parametrize(
    "form", ["bert", "albert", "xlm-roberta/ForMaskedLM", "distilbert/ForMaskedLM", "qwen3"]
)
def test_another_vocabulary_is_another_size(form: str) -> None:
    wider = Form.read(f'{form} {{"vocab_size": 77}}')
    assert saved(wider) == {"constants": {}, **recorded_model(wider)}


@pytest.mark.parametrize(("form", "weights"), ASKED)
def test_numbers_are_as_recorded(form: str, weights: str, tmp_path: Path) -> None:
    model = torch_model(save_model(tmp_path / "model", Form.read(form), Weights.read(weights)))
    cases = [case for case in map(Case.read, SAID) if (str(case.form), str(case.weights)) == (form, weights)]
    assert cases
    for case in cases:
        require_same(answer(model, case, GIVEN[case.tokens].astype(np.int64)), SAID[str(case)])


def test_every_record_of_tokens_is_under_its_own_name() -> None:
    assert [tokens_key(given.astype(np.int64)) for given in GIVEN.values()] == list(GIVEN)
