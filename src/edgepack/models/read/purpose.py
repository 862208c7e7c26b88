"""What a checkpoint is made for: texts' vectors, or something else that its encoder's vectors were never trained for."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgepack.errors import UnsupportedModelError
from edgepack.models.read.card import ModelCard
from edgepack.models.read.model_folder import ModelFolder
from edgepack.models.read.pooling import LAST_TOKEN

RERANKER, CLASSIFIER, TOKENS = "a reranker", "a classifier", "a token classifier"
MASKED, SPARSE, LATE = (
    "a masked language model",
    "a sparse encoder (SPLADE)",
    "a multi-vector encoder (ColBERT)",
)
IMAGES, SOUND = "an image model", "a model of sound"
ANSWERS, GENERATES = "a question-answering model", "a model that generates text"

_ARCHITECTURES = {
    "ForSequenceClassification": CLASSIFIER,
    "ForMultipleChoice": CLASSIFIER,
    "ForNextSentencePrediction": CLASSIFIER,
    "ForTokenClassification": TOKENS,
    "ForQuestionAnswering": ANSWERS,
    "ForMaskedLM": MASKED,
    "ForPreTraining": MASKED,
    "ForCausalLM": GENERATES,
    "LMHeadModel": GENERATES,
    "ForConditionalGeneration": GENERATES,
    "ForRanking": RERANKER,
    "ColBERT": LATE,
}
"""Ends of transformers' class names."""
_DECODERS = ("gemma3_text", "llama", "mistral", "qwen2", "qwen3")
"""``model_type`` of models that generate text unless something says that they were trained to embed it."""
_SETTINGS = {"CrossEncoder": RERANKER, "SparseEncoder": SPARSE, "MultiVectorEncoder": LATE, "ColBERT": LATE}
"""``model_type`` of config_sentence_transformers.json."""
_MODULES = {
    **dict.fromkeys(
        ("MLMTransformer", "SpladePooling", "SparseAutoEncoder", "SparseStaticEmbedding"), SPARSE
    ),
    **dict.fromkeys(("MultiVectorMask", "TokenPooling"), LATE),
    "LogitScore": RERANKER,
}
_TASKS = {
    "fill-mask": MASKED,
    "sequence-classification": CLASSIFIER,
    "text-classification": CLASSIFIER,
    "text-ranking": RERANKER,
    "token-classification": TOKENS,
    "question-answering": ANSWERS,
    "text-generation": GENERATES,
    "summarization": GENERATES,
    "translation": GENERATES,
}
"""Names of tasks, of the hub's cards and of sentence-transformers' Transformer module."""
_TAGS = {"splade": SPARSE, "sparse-encoder": SPARSE, "cross-encoder": RERANKER, "ColBERT": LATE}
_HEADS = {
    r"qa_outputs\.": ANSWERS,
    r"((pre_)?classifier|score|classification_head)\.": CLASSIFIER,
    r"cls\.predictions\.|(generator_)?(predictions|lm_head)\.|vocab_(projector|transform)\.|head\.dense\.": MASKED,
}
"""Beginnings of the names of a head's tensors."""
_LAST_LAYER = r"(classifier|score|classification_head)(\.out_proj)?\.weight"
"""Has a row for each label."""
_OUTPUTS = {("start_logits", 2): ANSWERS, ("logits", 2): CLASSIFIER, ("logits", 3): MASKED}
"""Name and number of axes of an ONNX graph's output."""
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Evidence of a model's purpose."""

    folder: ModelFolder
    card: ModelCard
    known: bool = False
    """Whether the catalogue knows it as an embedding model."""
    tensors: Shapes = field(default_factory=dict)
    """Name → shape of all weights."""
    outputs: Shapes = field(default_factory=dict)
    """Name → shape of what a ready-made graph gives; 0: a free size."""


def other_purpose(evidence: Evidence) -> str | None:
    """Purpose of a model, in words, if it is another than a text's vector: ``a reranker (…, 1 label)``.

    modules.json comes before config.json: sentence embedders are often made from masked language models, and keep their
    ``architectures``.
    """
    folder, config, kinds = evidence.folder, evidence.folder.config, evidence.folder.kinds
    settings = str(folder.settings.get("model_type"))
    task = str(folder.transformer.get("transformer_task"))
    found = _SETTINGS.get(settings) or _TASKS.get(task)
    found = found or next((_MODULES[kind] for kind in kinds or () if kind in _MODULES), None)
    if found or evidence.known or kinds is not None:
        return found
    if of := _of_something_else(folder):
        return f"{of} ({config.get('model_type')})"
    found = _by_architecture(config) or _by_head(evidence.tensors) or _by_output(evidence.outputs)
    if found is None and config.get("model_type") in _DECODERS:
        found = f"{GENERATES} ({config['model_type']})"
    tagged = next((_TAGS[tag] for tag in evidence.card.tags if tag in _TAGS), None)
    said = tagged or _TASKS.get(evidence.card.task)
    if found is None or (found.startswith(MASKED) and said == SPARSE):
        return said and f"{said} (its card says so)"
    return None if found.startswith(MASKED) and evidence.card.task == "sentence-similarity" else found


def _of_something_else(folder: ModelFolder) -> str | None:
    """A model that does not take texts: told by what transformers saves with those of images and of sound."""
    config = folder.config
    if "image_size" in config or "vision_config" in config:
        return IMAGES
    if folder.has("tokenizer.json"):
        return None
    prepared = folder.optional("preprocessor_config.json")
    if "num_channels" in config or "image_processor_type" in prepared:
        return IMAGES
    return SOUND if "feature_extractor_type" in prepared or "num_mel_bins" in config else None


def require_embedder(evidence: Evidence, name: str, *, treat: bool) -> tuple[str, ...]:
    """Raise ``UnsupportedModelError`` for a model that is for something else; with ``treat``, say so in a warning.

    What modules.json says is final: there is no other way to the vectors that it describes.
    """
    purpose = other_purpose(evidence)
    if purpose is None or (purpose.startswith(GENERATES) and _embeds_by_name(evidence, name)):
        return ()
    final = evidence.folder.kinds is not None or purpose.startswith((IMAGES, SOUND))
    if treat and not final:
        return (
            f"it is {purpose}, and is treated as an embedding model because --treat-as-embedding says so",
        )
    hint = "take an embedding model of texts"
    if not final:
        hint += "; if this is one, --treat-as-embedding takes it"
    if not final and purpose.startswith(MASKED):
        hint += "; a SPLADE model is known by its modules.json, by splade in its name, or by the tag splade in its README.md"
    raise UnsupportedModelError(
        f"{name} is {purpose}: its vectors were not trained for comparing texts", hint=hint
    )


def _embeds_by_name(evidence: Evidence, name: str) -> bool:
    """Whether a decoder is of a family of embedders that pool by the last token."""
    names = (name, str(evidence.folder.config.get("_name_or_path", "")))
    return any(re.search(LAST_TOKEN, each.lower()) for each in names)


def _by_architecture(config: Mapping[str, Any]) -> str | None:
    named = [str(each) for each in config.get("architectures") or ()]
    for name in named:
        for end, purpose in _ARCHITECTURES.items():
            if name.endswith(end):
                return _with_labels(purpose, name, _labels(config) if purpose == CLASSIFIER else None)
    return None


def _labels(config: Mapping[str, Any]) -> int | None:
    """Labels as transformers counts them, which writes nothing down where there are two."""
    labels = config.get("id2label")
    said = config.get("num_labels", len(labels) if isinstance(labels, dict) else 2)
    return said if isinstance(said, int) else None


def _by_head(tensors: Shapes) -> str | None:
    for pattern, purpose in _HEADS.items():
        names = [name for name in tensors if re.match(pattern, name) and name.endswith("weight")]
        last = next((name for name in names if re.fullmatch(_LAST_LAYER, name)), None)
        if names:
            labels = tensors[last][0] if last else None
            return _with_labels(purpose, f"it has {last or names[0]}", labels)
    return None


def _by_output(outputs: Shapes) -> str | None:
    """Purpose of graphs that give nothing but a head's result."""
    found = [(name, shape) for name, shape in outputs.items() if (name, len(shape)) in _OUTPUTS]
    if not found or len(found) < len([name for name in outputs if name != "end_logits"]):
        return None
    name, shape = found[0]
    purpose = _OUTPUTS[name, len(shape)]
    return _with_labels(purpose, f"its graph gives {name}", shape[1] if purpose == CLASSIFIER else None)


def _with_labels(purpose: str, why: str, labels: int | None) -> str:
    """A classifier of one label ranks."""
    if not labels:
        return f"{purpose} ({why})"
    return f"{RERANKER if labels == 1 else purpose} ({why}, {labels} label{'s' * (labels > 1)})"
