"""Small models with random weights and tokenizers that are no WordPiece: real in every respect but their size."""

import json
from pathlib import Path
from typing import Any

from edgepack.verifier.gate import verification_texts
from tests.support.recorded import Weights, form_of, save_model

VOCABULARY = 900
SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
PREFIXES = {"query": "ask: ", "passage": "text: "}
DIMENSIONS = [8, 16]
"""What the model is said to have been trained for beside its 32."""
SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 130,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}


def write_small_model(folder: Path, tokenizer: str) -> Path:
    """An XLM-RoBERTa (``unigram``) or a RoBERTa (``byte-level``) in Sentence Transformers' layout, 32 dimensions."""
    made = unigram() if tokenizer == "unigram" else byte_level()
    kind = {"unigram": "xlm-roberta", "byte-level": "roberta"}[tokenizer]
    shape = {**SHAPE, "vocab_size": made.get_vocab_size(), "matryoshka_dimensions": DIMENSIONS}
    save_model(folder, form_of(kind, shape), Weights(std=0, seed=7))
    made.save(str(folder / "tokenizer.json"))
    write_layout(folder, dimension=shape["hidden_size"])
    return folder


def write_small_bert(folder: Path) -> Path:
    """A BERT of 64 dimensions, which the engine takes."""
    wide, made = 64, byte_level()
    shape = {"hidden_size": wide, "intermediate_size": 2 * wide, "vocab_size": made.get_vocab_size()}
    save_model(folder, form_of("bert", shape), Weights(std=0.1))
    made.save(str(folder / "tokenizer.json"))
    write_layout(folder, dimension=wide)
    return folder


def unigram() -> Any:
    """As XLM-RoBERTa's: a Unigram model over Metaspace, trained on the verification texts."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIALS, unk_token="<unk>", show_progress=False
    )
    return _framed(made, trainer)


def byte_level() -> Any:
    """As RoBERTa's: BPE over bytes."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIALS, initial_alphabet=alphabet, show_progress=False
    )
    return _framed(made, trainer)


def _framed(tokenizer: Any, trainer: Any) -> Any:
    from tokenizers import processors

    tokenizer.train_from_iterator(verification_texts(), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


def write_layout(folder: Path, *, dimension: int) -> None:
    """What says that tokens' vectors are averaged, and which texts come before others."""
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (path, kind) in enumerate(kinds.items())
    ]
    (folder / "1_Pooling").mkdir()
    documents = {
        "modules.json": modules,
        "1_Pooling/config.json": {"word_embedding_dimension": dimension, "pooling_mode_mean_tokens": True},
        "config_sentence_transformers.json": {"prompts": PREFIXES},
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document))
