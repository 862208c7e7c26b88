"""Batches, padding and order."""

import json
import shutil
from pathlib import Path

import pytest

from edgepack.runner.frozen.base.bundle import Bundle
from edgepack.runner.frozen.model.embedder import BATCH_TOKENS, PADDING_SHARE, Embedder, batches, cosine, pad
from edgepack.runner.frozen.tokenizer.hugging_face import HuggingFaceTokenizer

pytestmark = pytest.mark.tools("python")


def test_batches_are_of_like_length_and_hold_every_text_once() -> None:
    made = list(batches([5, 1, 9, 2, 7], 2))
    assert made == [[2, 4], [0, 3], [1]]


def test_long_texts_go_in_smaller_batches() -> None:
    assert list(batches([5, 4, 5, 30], 3, tokens=10)) == [[3], [0, 2], [1]]


def test_a_fixed_batch_size_is_neither_padded_for_nothing_nor_larger_than_the_longest_text() -> None:
    lengths = [(at * 37) % 251 + 3 for at in range(500)]
    made = list(batches(lengths, 32, tokens=256))
    assert sorted(index for batch in made for index in batch) == list(range(500))
    for batch in made:
        padded = len(batch) * max(lengths[index] for index in batch)
        padding = padded - sum(lengths[index] for index in batch)
        assert padded <= 256
        assert padded <= BATCH_TOKENS or padding * PADDING_SHARE <= padded


def test_a_batch_of_texts_that_are_alike_is_as_large_as_was_asked_for() -> None:
    assert [len(batch) for batch in batches([8] * 70, 32, tokens=512)] == [32, 32, 6]


def test_texts_that_go_alone_keep_their_order() -> None:
    assert list(batches([5, 1, 9], 1)) == [[0], [1], [2]]


def test_rows_are_padded_to_the_longest_and_masked() -> None:
    ids, mask, types = pad([([7, 8, 9], [0, 0, 1]), ([4], [0])], 3)
    assert ids == [[7, 8, 9], [4, 3, 3]]
    assert mask == [[1, 1, 1], [1, 0, 0]]
    assert types == [[0, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_the_batch_does_not_move_a_vector(frozen_sample: Path, batch_size: int) -> None:
    texts = ["a cat sat on the mat", "mat", "", "the kitten", "a a a"]
    embedder = Embedder(Bundle(str(frozen_sample)), batch_size=batch_size)
    alone = [embedder.embed([text])[0] for text in texts]
    for together, single in zip(embedder.embed(texts), alone, strict=True):
        assert list(together) == pytest.approx(list(single), abs=1e-6)


def test_a_batch_dependent_model_gets_one_text_at_a_time(frozen_sample: Path, tmp_path: Path) -> None:
    copy = tmp_path / "bundle"
    shutil.copytree(frozen_sample, copy)
    assert Embedder(Bundle(str(copy))).batch_size > 1
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["model"]["batch_dependent"] = True
    (copy / "manifest.json").write_text(json.dumps(manifest))
    assert Embedder(Bundle(str(copy))).batch_size == 1
    assert Embedder(Bundle(str(copy)), batch_size=3).batch_size == 3


def test_texts_are_truncated_to_the_length_of_the_manifest(frozen_sample: Path) -> None:
    embedder = Embedder(Bundle(str(frozen_sample)))
    # Six tokens, two of them special: four words count.
    first, same, other = embedder.embed(["a cat sat on", "a cat sat on mat mat", "a cat sat mat"])
    assert first == same
    assert first != other


def test_the_tokenizers_own_padding_and_truncation_do_not_count(frozen_sample: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(frozen_sample / "model/tokenizer.json"))
    tokenizer.enable_padding(length=20, pad_id=5)
    tokenizer.enable_truncation(max_length=3)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    tokens = HuggingFaceTokenizer(str(tmp_path / "tokenizer.json"), max_length=6, threads=1)
    assert tokens.encode(["a cat", "a cat sat on the mat"]) == [
        ([2, 4, 5, 3], [0] * 4),
        ([2, 4, 5, 7, 8, 3], [0] * 6),
    ]
    assert tokens.pad_id == 5


def test_a_tokenizer_without_special_tokens_still_gives_one(frozen_sample: Path, tmp_path: Path) -> None:
    said = json.loads((frozen_sample / "model/tokenizer.json").read_text())
    said["post_processor"] = None
    (tmp_path / "tokenizer.json").write_text(json.dumps(said))
    tokens = HuggingFaceTokenizer(str(tmp_path / "tokenizer.json"), max_length=6, threads=1)
    assert tokens.encode(["", "cat"]) == [([0], [0]), ([5], [0])]


def test_cosine() -> None:
    assert cosine([3, 4], [3, 4]) == pytest.approx(1)
    assert cosine([1, 0], [0, 2]) == 0
    assert cosine([1, 0], [-5, 0]) == pytest.approx(-1)
    assert cosine([0, 0], [1, 1]) == 0
