"""A WordPiece tokenizer of real words."""

from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from edgepack.verifier.gate import verification_texts

WORDS = 900


def word_piece() -> Any:
    """As BERT's, lower-casing, trained on the verification texts."""
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=WORDS, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"], show_progress=False
    )
    made.train_from_iterator(verification_texts(), trainer)
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return made
