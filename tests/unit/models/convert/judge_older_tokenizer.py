"""Tokenizers made of older files are those that transformers makes, of pieces that SentencePiece wrote."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import transformers
from tests.support.small_models import byte_level
from tests.support.tiny import write_json
from tests.unit.models.convert.test_older_tokenizer import refused, vocabulary, write_vocabulary
from tokenizers import Tokenizer

from edgepack.models.convert.older_tokenizer import converted_tokenizer
from edgepack.models.read.model_folder import ModelFolder
from edgepack.verifier.texts.fuzz import fuzz_texts_for

TEXTS = Path(__file__).parents[4] / "src/edgepack/verifier/data/texts.txt"

COUNT = 400

ODD = ("", "hello world", "<mask> x", "a<mask>b", " a  b ", "[MASK] [mask]", "<pad>")


def write_merges(folder: Path) -> None:
    byte_level().model.save(str(folder))


def write_pieces(folder: Path, file: str, kind: str, **how: Any) -> None:
    sentencepiece.SentencePieceTrainer.train(
        input=str(TEXTS),
        model_prefix=str(folder / "made"),
        vocab_size=900,
        hard_vocab_limit=False,
        model_type=kind,
        minloglevel=2,
        **how,
    )
    (folder / "made.model").rename(folder / file)
    (folder / "made.vocab").unlink()


UNIGRAM = {"kind": "unigram", "normalization_rule_name": "nmt_nfkc"}

BPE = {
    "kind": "bpe",
    "byte_fallback": True,
    "normalization_rule_name": "identity",
    "remove_extra_whitespaces": False,
}

ALBERT = {
    "pad_id": 0,
    "unk_id": 1,
    "bos_id": -1,
    "eos_id": -1,
    "control_symbols": "[CLS],[SEP]",
    "user_defined_symbols": "[MASK],(",
}

GEMMA = {
    "pad_id": 0,
    "eos_id": 1,
    "bos_id": 2,
    "unk_id": 3,
    "add_dummy_prefix": False,
    "user_defined_symbols": "<mask>,<turn>,\t",
}

MASK = {"content": "<mask>", "lstrip": True, "rstrip": False, "normalized": False, "single_word": False}

NEW = {
    "content": "new",
    "lstrip": True,
    "rstrip": False,
    "normalized": True,
    "single_word": True,
    "special": False,
}

PIECES = "sentencepiece.bpe.model"

KINDS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "bert": ("bert", {}, {}),
    "bert cased": ("bert", {}, {"do_lower_case": False, "tokenize_chinese_chars": False}),
    "bert with accents": ("bert", {}, {"strip_accents": False, "tokenizer_class": "BertTokenizerFast"}),
    "distilbert": ("distilbert", {}, {"tokenizer_class": "DistilBertTokenizer"}),
    "mpnet": ("mpnet", {}, {}),
    "roberta": ("roberta", {}, {}),
    "roberta of words": (
        "roberta",
        {},
        {"add_prefix_space": True, "mask_token": {**MASK, "__type": "AddedToken"}},
    ),
    "xlm-roberta": ("xlm-roberta", {"file": PIECES, **UNIGRAM}, {}),
    "camembert": ("camembert", {"file": PIECES, **UNIGRAM}, {}),
    "t5": (
        "t5",
        {"file": "spiece.model", **UNIGRAM, "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
        {},
    ),
    "albert": ("albert", {"file": "spiece.model", **UNIGRAM, **ALBERT}, {}),
    "gemma": ("gemma3_text", {"file": "tokenizer.model", **BPE, **GEMMA}, {"add_bos_token": True}),
    "llama": ("llama", {"file": "tokenizer.model", **BPE}, {"add_bos_token": True, "add_eos_token": True}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_ids_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    model_type, pieces, settings = KINDS[kind]
    if pieces:
        write_pieces(tmp_path, **pieces)
    elif model_type == "roberta":
        write_merges(tmp_path)
    else:
        write_vocabulary(tmp_path, *(["<s>", "<pad>", "</s>", "<mask>"] if kind == "mpnet" else ["[MASK]"]))
    agree(tmp_path, model_type, settings)


def test_added_tokens_as_today_s_files_name_them(tmp_path: Path) -> None:
    write_vocabulary(tmp_path)
    count = len(vocabulary().splitlines())
    pad = {
        "content": "[PAD]",
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "single_word": False,
        "special": True,
    }
    agree(
        tmp_path,
        "bert",
        {"added_tokens_decoder": {str(count): NEW, "0": pad}, "additional_special_tokens": ["<a>"]},
    )


def test_added_tokens_as_older_files_name_them(tmp_path: Path) -> None:
    write_vocabulary(tmp_path)
    count = len(vocabulary().splitlines())
    write_json(
        tmp_path / "special_tokens_map.json",
        {"unk_token": "[UNK]", "mask_token": {**MASK, "content": "[MASK]"}},
    )
    write_json(tmp_path / "added_tokens.json", {"hello world": count + 1, "[MASK]": count})
    agree(tmp_path, "bert", {})


def agree(folder: Path, model_type: str, settings: dict[str, Any]) -> None:
    write_json(folder / "config.json", {"model_type": model_type})
    named = {"tokenizer_class": "LlamaTokenizer"} if model_type == "llama" else {}
    write_json(folder / "tokenizer_config.json", {**named, **settings})
    judge: Any = transformers.AutoTokenizer.from_pretrained(folder)
    exact = judge._tokenizer
    exact.no_truncation()
    exact.no_padding()
    ours = Tokenizer.from_str(converted_tokenizer(ModelFolder(directory=folder)))
    assert ours.get_vocab() == exact.get_vocab()
    texts = [*ODD, *fuzz_texts_for(exact, COUNT, seed=5)]
    pairs = list(pairwise(texts))[:50]
    for text in (*texts, *pairs):
        given: Any = [text] if isinstance(text, str) else text
        one, other = (each.encode(*given) for each in (exact, ours))
        assert (one.ids, one.type_ids) == (other.ids, other.type_ids), repr(text)


def test_pieces_of_another_kind_are_refused(tmp_path: Path) -> None:
    write_pieces(tmp_path, "spiece.model", "bpe")
    assert "made of a Unigram model" in refused(tmp_path, {"model_type": "t5"}).message
