"""SentencePiece makes of the texts what is recorded of it. ``python -m tests.unit.runner.tokenizer.judge_unigram`` records it."""

import base64
import json
import lzma
import tempfile
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tests.support.golden import ROOT
from tests.support.sentencepieces import FILE, charsmap, pieces

TEXTS = ROOT / "src/edgepack/verifier/data/texts.txt"


def trained() -> dict[str, Any]:
    """A Unigram model of about 2000 tokens, with the map ``nmt_nfkc``."""
    with tempfile.TemporaryDirectory() as folder:
        prefix = Path(folder) / "model"
        sentencepiece.SentencePieceTrainer.train(
            input=str(TEXTS),
            model_prefix=str(prefix),
            vocab_size=2000,
            hard_vocab_limit=False,
            normalization_rule_name="nmt_nfkc",
            minloglevel=2,
        )
        model: Any = vars(sentencepiece_model_pb2)["ModelProto"]()
        model.ParseFromString(prefix.with_suffix(".model").read_bytes())
    return {
        "charsmap": base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode(),
        "pieces": [[piece.piece, piece.score] for piece in model.pieces[3:]],
    }


def test_it_is_as_recorded() -> None:
    made = trained()
    assert made["charsmap"] == charsmap()
    assert [word for word, _ in made["pieces"]] == [word for word, _ in pieces()]
    assert [score for _, score in made["pieces"]] == pytest.approx([score for _, score in pieces()], rel=1e-4)


if __name__ == "__main__":
    FILE.write_bytes(lzma.compress(json.dumps(trained()).encode()))
