"""SentencePiece's ``.model`` files, read without its library: pieces, what kind of model they are for, and the map of characters."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from edgepack.errors import ModelError
from edgepack.models.read.documents import LONGEST, read_bytes

UNIGRAM, BPE = 1, 2
CONTROL, USER_DEFINED = 3, 4
FIELDS = """
name: "edgepack/sentencepiece.proto" package: "edgepack.sentencepiece"
message_type { name: "Piece"
  field { name: "piece" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "score" number: 2 type: TYPE_FLOAT label: LABEL_OPTIONAL }
  field { name: "type" number: 3 type: TYPE_INT32 label: LABEL_OPTIONAL default_value: "1" } }
message_type { name: "Trainer"
  field { name: "model_type" number: 3 type: TYPE_INT32 label: LABEL_OPTIONAL default_value: "1" }
  field { name: "unk_id" number: 40 type: TYPE_INT32 label: LABEL_OPTIONAL } }
message_type { name: "Normalizer"
  field { name: "charsmap" number: 2 type: TYPE_BYTES label: LABEL_OPTIONAL } }
message_type { name: "Model"
  field { name: "pieces" number: 1 type: TYPE_MESSAGE label: LABEL_REPEATED type_name: "Piece" }
  field { name: "trainer" number: 2 type: TYPE_MESSAGE label: LABEL_OPTIONAL type_name: "Trainer" }
  field { name: "normalizer" number: 3 type: TYPE_MESSAGE label: LABEL_OPTIONAL type_name: "Normalizer" } }
"""
"""The fields that count of https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A token and its score; ``kind`` is one of ``CONTROL`` and ``USER_DEFINED``, or another number."""

    text: str
    score: float
    kind: int


@dataclass(frozen=True, kw_only=True)
class SentencePieceModel:
    """Content of a SentencePiece model file."""

    pieces: tuple[Piece, ...]
    kind: int
    """``UNIGRAM``, ``BPE`` or another."""
    unknown: int
    charsmap: bytes


def read_sentencepiece(path: Path) -> SentencePieceModel:
    """Raises ``ModelError`` for a file that is none."""
    from google.protobuf.message import DecodeError

    try:
        found = _model().FromString(read_bytes(path, most=LONGEST))
        pieces = tuple(Piece(text=each.piece, score=each.score, kind=each.type) for each in found.pieces)
    except (DecodeError, ValueError) as error:
        raise ModelError(
            f"{path.name} is not a model of SentencePiece", hint="it may be damaged; fetch it again"
        ) from error
    if not pieces:
        raise ModelError(f"{path.name} has no pieces", hint="it is damaged, or no model of SentencePiece")
    return SentencePieceModel(
        pieces=pieces,
        kind=found.trainer.model_type,
        unknown=found.trainer.unk_id,
        charsmap=found.normalizer.charsmap,
    )


@cache
def _model() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(FIELDS, descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("edgepack.sentencepiece.Model"))
