"""Trimming: what no text reaches becomes zero, and vectors of floats keep eight binary digits; both for compressed downloads.

Of a vocabulary of WordPiece, tokens that its own normalizer and splitter never leave in one piece: ``[unused17]`` is cut at its
brackets. Of a table of positions, those behind the longest text. Their rows stay in place and compress to nothing.

Cost: none for any text that the model takes; floats of biases, scales and normalizations change by 0.4 % at most, frequencies of
rotary positions not at all.
"""

import json
import sys
from copy import deepcopy

import numpy as np
import onnx

from edgepack.models.graph.editor import GraphEditor, edit
from edgepack.models.graph.sample_inputs import lookups
from edgepack.models.read.tokenizer import load_tokenizer, minimal_json
from edgepack.quantization.arrays import Floats
from edgepack.records.model import ModelSource
from edgepack.records.recipe import Material, Note

LONG = 64
"""Numbers of a vector, at least: what single constants say stays exact."""
DROPPED = 16
"""Binary digits of a float32 that go, of 24."""


def trim(model: onnx.ModelProto, note: Note, material: Material) -> onnx.ModelProto:
    """The model with zeros in rows of tables that no text reaches, and with short floats in its vectors."""
    editor = edit(model)
    exact = editor.positions()
    idle = _idle_rows(editor, material.source) if material.source else {}
    for node in editor.take_nodes():
        changed = deepcopy(node)
        for place, name in enumerate(node.input):
            if name in idle:
                changed.input[place] = editor.weight(
                    f"{name}.trimmed", _without(editor.array(name), idle[name])
                )
            elif _is_vector(editor, name) and name not in exact:
                changed.input[place] = editor.weight(f"{name}.short", short_floats(editor.array(name)))
        editor.keep(changed)
    return editor.finish()


def short_floats(values: Floats) -> Floats:
    """The nearest floats whose last ``DROPPED`` binary digits are zero."""
    bits = np.ascontiguousarray(values).view(np.uint32).astype(np.uint64)
    kept = (bits + (1 << (DROPPED - 1))) >> DROPPED << DROPPED
    rounded: Floats = kept.astype(np.uint32).view(np.float32)
    return rounded


def unreachable_tokens(source: ModelSource) -> list[int]:
    """The tokens that no text has, as far as that is known: of a vocabulary of WordPiece behind BERT's splitter, in order."""
    document = json.loads(minimal_json(source))
    kinds = [(document.get(part) or {}).get("type") for part in ("model", "normalizer", "pre_tokenizer")]
    if kinds != ["WordPiece", "BertNormalizer", "BertPreTokenizer"]:
        return []
    tokenizer = load_tokenizer(source)
    normalize, split = tokenizer.normalizer.normalize_str, tokenizer.pre_tokenizer.pre_tokenize_str
    letters = set(
        normalize(" ".join(chr(each) for each in range(sys.maxunicode + 1) if not 0xD800 <= each < 0xE000))
    )
    prefix = document["model"]["continuing_subword_prefix"]
    spared = {*tokenizer.get_added_tokens_decoder(), tokenizer.token_to_id(document["model"]["unk_token"])}
    spared |= source.outputs.tokens if source.outputs else set()

    def is_reachable(token: str) -> bool:
        inside = token.startswith(prefix) and token != prefix
        piece = token.removeprefix(prefix) if inside else token
        return letters.issuperset(piece) and len(split(normalize(f"a{piece}" if inside else piece))) == 1

    return sorted(
        number
        for token, number in tokenizer.get_vocab(with_added_tokens=False).items()
        if number not in spared and not is_reachable(token)
    )


def _idle_rows(editor: GraphEditor, source: ModelSource) -> dict[str, np.ndarray]:
    """Table → its rows that no text reaches."""
    tokens = np.array(unreachable_tokens(source), np.int64)
    found = {}
    for table, ids in lookups(editor.model):
        if table not in editor.weights or editor.array(table).ndim != 2:
            continue
        if ids == "input_ids":
            rows = tokens[tokens < len(editor.array(table))]
        else:
            rows = _idle_positions(editor, ids, len(editor.array(table)), source.max_length)
        if rows.size:
            found[table] = rows
    return found


def _idle_positions(editor: GraphEditor, ids: str, rows: int, longest: int) -> np.ndarray:
    """Rows that the longest text has no position for, where positions are counted from one end of a list of them."""
    node = editor.producer(ids)
    if node is None or node.op_type != "Slice" or node.input[0] not in editor.weights:
        return np.zeros(0, np.int64)
    reached = editor.array(node.input[0]).reshape(-1)[:longest]
    starts_at = editor.array(node.input[1]) if node.input[1] in editor.weights else None
    if starts_at is None or starts_at.any():
        return np.zeros(0, np.int64)
    return np.setdiff1d(np.arange(rows), reached)


def _without(table: np.ndarray, rows: np.ndarray) -> np.ndarray:
    trimmed = table.copy()
    trimmed[rows] = 0
    return trimmed


def _is_vector(editor: GraphEditor, name: str) -> bool:
    """Whether a weight is a vector of floats, or one written as a column, as scales of rows are."""
    tensor = editor.weights.get(name)
    if tensor is None or tensor.data_type != onnx.TensorProto.FLOAT:
        return False
    return max(tensor.dims, default=0) >= LONG and sum(size > 1 for size in tensor.dims) == 1
