"""A tokenizer that gives tokens no types where transformers takes none of it, whatever its tokenizer.json puts around a text."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgepack.context import BuildContext
from edgepack.files.store import digest_of_code
from edgepack.models.convert.older_tokenizer import FILE, SETTINGS
from edgepack.models.convert.tokenizer_classes import class_of
from edgepack.models.read.documents import read_object
from edgepack.models.read.model_folder import ModelFolder

TYPES = "token_type_ids"
WITHOUT = {
    "BartTokenizer", "BloomTokenizer", "CamembertTokenizer", "CodeGenTokenizer", "CohereTokenizer", "DPRReaderTokenizer",
    "DistilBertTokenizer", "GPT2Tokenizer", "GPTNeoXTokenizer", "GemmaTokenizer", "LlamaTokenizer", "LongformerTokenizer",
    "MBartTokenizer", "MPNetTokenizer", "Qwen2Tokenizer", "RetriBertTokenizer", "RobertaTokenizer", "T5Tokenizer",
    "TokenizersBackend", "XLMRobertaTokenizer",
}  # fmt: skip
"""Classes of transformers that give a model no types unless ``model_input_names`` says so."""
BY_RELEASE_4 = {
    "AlbertTokenizer", "FunnelTokenizer", "PreTrainedTokenizer", "RemBertTokenizer", "RoFormerTokenizer", "SplinterTokenizer",
    "XLNetTokenizer",
}  # fmt: skip
"""Those that give them in release 4 alone."""
_PLAIN: Mapping[str, Any] = {
    "type": "TemplateProcessing",
    "single": [{"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": each, "type_id": 0}} for each in "AB"],
    "special_tokens": {},
}


def typed_tokenizer(folder: ModelFolder, tokenizer: Path, *, pairs: bool, context: BuildContext) -> Path:
    """The file itself; where its types are taken by no release of transformers, one without them, kept in the store.

    ``pairs``: the model takes pairs of texts, too.
    """
    if gives_types(folder) is not False:
        return tokenizer
    document = read_object(tokenizer)
    plain = _without_types(document.get("post_processor"), pairs)
    if plain == document.get("post_processor"):
        return tokenizer

    def make(into: Path) -> None:
        text = json.dumps({**document, "post_processor": plain}, ensure_ascii=False)
        (into / FILE).write_text(text, encoding="utf-8")

    inputs = {"pairs": str(pairs), "by": digest_of_code("models")}
    return context.store.cached("typed-tokenizer", inputs, make, files={"tokenizer": tokenizer}) / FILE


def gives_types(folder: ModelFolder) -> bool | None:
    """Whether transformers gives the model tokens' types; ``None`` where release 4 does and release 5 does not."""
    said = folder.optional(SETTINGS)
    if isinstance(names := said.get("model_input_names"), list):
        return TYPES in names
    name = class_of(folder.config, said)
    return None if name in BY_RELEASE_4 else name not in WITHOUT


def _without_types(step: Any, pairs: bool) -> Any:
    """A post-processor that does the same and gives each token type 0, of pairs where they are asked for; or the same."""
    kind = step.get("type") if isinstance(step, Mapping) else None
    if kind in (None, "ByteLevel"):
        return _PLAIN if pairs else step
    if kind == "Sequence":
        working = [each for each in step["processors"] if each["type"] != "ByteLevel"]
        made = [_without_types(each, pairs) for each in working] or [_without_types(None, pairs)]
        return step if made == (working or [None]) else {**step, "processors": made}
    if kind == "BertProcessing" and pairs:
        return _template(tuple(step["cls"]), tuple(step["sep"]))
    if kind != "TemplateProcessing":
        return step
    kinds = ("single", "pair") if pairs else ("single",)
    return {**step, **{each: [_untyped(piece) for piece in step[each]] for each in kinds}}


def _untyped(piece: Mapping[str, Any]) -> dict[str, Any]:
    return {kind: {**said, "type_id": 0} for kind, said in piece.items()}


def _template(begin: tuple[str, int], end: tuple[str, int]) -> dict[str, Any]:
    tokens = dict((begin, end))
    first, last = ({"SpecialToken": {"id": token, "type_id": 0}} for token, _ in (begin, end))
    one, other = _PLAIN["pair"]
    return {
        **_PLAIN,
        "single": [first, one, last],
        "pair": [first, one, last, other, last],
        "special_tokens": {
            token: {"id": token, "ids": [number], "tokens": [token]} for token, number in tokens.items()
        },
    }
