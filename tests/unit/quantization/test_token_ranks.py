"""Which tokens are taken for rare."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.support.berts import write_bert
from tests.support.tiny import write_json

from edgepack.passes.int8_dynamic import int8_dynamic
from edgepack.quantization.token_ranks import characters_of, token_ranks
from edgepack.records.recipe import Material

MERGED = [f"word{number}" for number in range(4000)]
CHARACTERS = [chr(0x4E00 + number) for number in range(40)]


def write_tokenizer(path: Path, **model: Any) -> Path:
    vocab = {text: token for token, text in enumerate([*MERGED, *CHARACTERS])}
    write_json(path, {"model": {"type": "BPE", "byte_fallback": True, "vocab": vocab, **model}})
    return path


def test_characters_behind_all_that_is_merged_of_them_are_ranked_by_themselves(tmp_path: Path) -> None:
    ranks = token_ranks(write_tokenizer(tmp_path / "tokenizer.json"), 4040)
    assert ranks[:4000].tolist() == list(range(4000))
    assert ranks[4000:].tolist() == list(range(40))


@pytest.mark.parametrize("model", [{"type": "Unigram"}, {"byte_fallback": False}])
def test_other_vocabularies_are_in_order(tmp_path: Path, model: dict[str, Any]) -> None:
    file = write_tokenizer(tmp_path / "tokenizer.json", **model)
    assert characters_of(file) == []
    assert token_ranks(file, 4040).tolist() == token_ranks(None, 4040).tolist() == list(range(4040))
    assert token_ranks(write_tokenizer(file), 50).tolist() == list(range(50)), "a table of something else"


def test_pieces_of_wordpiece_are_ranked_by_themselves_when_that_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    pieces = {text: token for token, text in enumerate(["word", "s", "##ab", "##abc", "##s", "no"])}
    write_json(file, {"model": {"type": "WordPiece", "continuing_subword_prefix": "##", "vocab": pieces}})
    assert token_ranks(file, 6).tolist() == [0, 1, 2, 3, 4, 5]
    assert token_ranks(file, 6, pieces=True).tolist() == [0, 0, 1, 3, 2, 3]


@pytest.mark.parametrize(("asked", "power"), [({"weighed": True}, 0.25), ({"rarity": 0.15}, 0.15), ({}, 0.0)])
def test_steps_of_rows_follow_the_ranks(tmp_path: Path, asked: Any, power: float) -> None:
    source, _ = write_bert(tmp_path / "model")
    write_tokenizer(source.tokenizer)
    table = np.random.default_rng(3).normal(size=(4040, 64)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["words", "input_ids"], ["sentence_embedding"], name="words")],
        "words",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["tokens"])],
        [helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["tokens", 64])],
        [numpy_helper.from_array(table, "words")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made = int8_dynamic(model, print, Material(source=source), table_steps=5.0, **asked)
    scales = next(each for each in made.graph.initializer if each.name == "words.scales")
    widths = numpy_helper.to_array(scales)[:, 0] * 5 / table.std(axis=1)
    assert widths[4000:] == pytest.approx(1), "characters are common, though they are last"
    assert widths[3999] == pytest.approx((1 + 1999 / 300) ** power)
    onnx.checker.check_model(made)
