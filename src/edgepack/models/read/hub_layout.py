"""The Hugging Face layout: which files of a model folder matter, told from their names alone."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from edgepack.context import BuildContext, perhaps_broken
from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.read.architectures import AXIS, INSTALL_PYTORCH, has_pytorch
from edgepack.models.read.documents import code_of

SAFETENSORS = "model.safetensors"
PICKLED = "pytorch_model.bin"
SHARD_INDEX, PICKLED_INDEX = "model.safetensors.index.json", "pytorch_model.bin.index.json"
WEIGHTS = (SAFETENSORS, SHARD_INDEX, PICKLED, PICKLED_INDEX)
"""What tensors are read from, the likeliest first."""
TENSORS = (".bin", ".pkl", ".pt", ".safetensors")
"""How names of files with weights end."""
ADAPTER = "adapter_config.json"
ADAPTER_WEIGHTS = frozenset(("adapter_model.safetensors", "adapter_model.bin"))
MOST_FILES = 1_000
"""Files of one model that are asked for, documents and weights."""
ORT_SUFFIX = ".ort"
GGUF_SUFFIX = ".gguf"

DESCRIPTIONS = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "README.md",
    "config_setfit.json",
    "model_head.pkl",
    "artifact.metadata",
    "colbert_linear.pt",
    "sparse_linear.pt",
)
"""What says how the weights are to be used, beside the modules' own. Only the first two must be there."""

WIDTH_KEYS = ("hidden_size", "dim", "n_embd", "d_model", "emb_dim")
"""What config.json calls the numbers that layers work with, by architecture."""
OLDER_TOKENIZERS = (
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
    "tokenizer.model",
)
"""What a tokenizer.json is made of where there is none; ``OLDER_SETTINGS`` say more of its tokens."""
OLDER_SETTINGS = ("special_tokens_map.json", "added_tokens.json")

DIMENSION_KEYS = ("embedding_dim", *WIDTH_KEYS)
"""What it calls the length of a token's vector: that, where no matrix follows the last layer."""
TEXT_PARTS = ("embedding_gemma2",)
"""``model_type`` of models of several media, whose text part alone makes vectors of texts."""

CODED = ("AutoModel", "AutoConfig", "AutoModelForMaskedLM", "AutoModelForSequenceClassification")
"""Classes of transformers in whose place code that comes with a model may be."""
FOLLOWED = ("gte", "new", "nomic_bert")
"""``model_type`` of families that have such code, which edgepack's graphs follow. A plugin's follow what its author says."""

_MODULE_FILE = re.compile(
    r"\d+_\w+/config\.json|\d+_(?:Dense|LayerNorm|WeightedLayerPooling)\w*/(model\.safetensors|pytorch_model\.bin)|sentence_[\w-]+_config\.json"
)
_PICKLES = (PICKLED, PICKLED_INDEX, "tf_model.h5", "flax_model.msgpack")


def dimension_of(config: Mapping[str, Any]) -> int | None:
    """The length of a token's vector as config.json says it, or ``None``."""
    said = (config[key] for key in DIMENSION_KEYS if key in config)
    return next((value for value in said if isinstance(value, int) and not isinstance(value, bool)), None)


def text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of a model's text part, where it is one of several; otherwise the same."""
    inner = config.get("text_config")
    return inner if str(config.get("model_type")) in TEXT_PARTS and isinstance(inner, dict) else config


def descriptions(names: Iterable[str]) -> tuple[str, ...]:
    """The names, of those given, that describe a model (not its weights), sorted; of a module's weights one form, and of a
    tokenizer's files the older ones only where there is no tokenizer.json.
    """
    there = set(names)
    found = {name for name in there if name in DESCRIPTIONS or _MODULE_FILE.fullmatch(name)}
    # Also beside a tokenizer.json, which they may contradict.
    found |= there & {*OLDER_SETTINGS}
    if "tokenizer.json" not in there:
        found |= there & {*OLDER_TOKENIZERS}
    spare = {name for name in found if name.replace(PICKLED, SAFETENSORS) in found - {name}}
    return tuple(sorted(found - spare))


def all_plain(names: Iterable[str]) -> tuple[str, ...]:
    """Files that a model with routes may be made of, sorted: descriptions and tensors in any folder, in one form each."""
    there = set(names)
    found = {name for name in there if name.endswith((".json", ".txt", ".model", ".safetensors", ".md"))}
    pickled = {name for name in there if name.endswith(PICKLED)}
    found |= {name for name in pickled if name.removesuffix(PICKLED) + SAFETENSORS not in there}
    return tuple(sorted(found))


def has_tokenizer(names: Iterable[str]) -> bool:
    """Whether there is a tokenizer.json or one of the files that one is made of."""
    return not {"tokenizer.json", *OLDER_TOKENIZERS}.isdisjoint(names)


def require_tokenizer(names: Iterable[str], model: str) -> None:
    """Raise ``ModelError`` when there is neither a tokenizer.json nor one of the files that one is made of."""
    if has_tokenizer(names):
        return
    raise ModelError(
        f"{model} has no tokenizer.json",
        hint='copy it from where the model was trained, or: python -c "from transformers import AutoTokenizer as T; '
        "T.from_pretrained('FOLDER').save_pretrained('FOLDER')\" writes one",
    )


def require_model(names: Iterable[str], model: str) -> None:
    """Raise ``UnsupportedModelError`` for what belongs to another model, is in another program's format, or was made of a model."""
    there = set(names)
    if ADAPTER in there and "config.json" not in there:
        raise UnsupportedModelError(
            f"{model} is an adapter (LoRA) for another model",
            hint="unpack it, and name its folder: edgepack merges the two where adapter_config.json names the other",
        )
    if ADAPTER in there and not ADAPTER_WEIGHTS.isdisjoint(there):
        raise UnsupportedModelError(
            f"{model} holds an adapter (LoRA) and weights beside it: transformers takes the adapter and the base model that it names, others the weights",
            hint=f"take {ADAPTER} away, or the weights: edgepack then merges the adapter into its base model",
        )
    if "manifest.json" in there and "tokenizer.json" not in there:
        raise UnsupportedModelError(
            f"{model} is a bundle, not a model",
            hint="edgepack report and edgepack verify take bundles; name the model that it was made from",
        )
    if any(name.endswith(GGUF_SUFFIX) for name in there) and "tokenizer.json" not in there:
        raise in_gguf(model)


def require_config(names: Iterable[str], model: str, *, place: str) -> None:
    """Raise ``ModelError`` when there is no config.json; ``place`` is the folder as a command takes it."""
    there = sorted(names)
    if "config.json" not in there:
        graphs = [name for name in there if name.endswith(".onnx")]
        raise ModelError(
            f"{model} has no config.json",
            hint=f"name the graph itself: {place}/{graphs[0]}, with a tokenizer.json beside it"
            if graphs
            else "a model folder has config.json, tokenizer.json and model.safetensors (or an .onnx file)",
        )


def weights_of(
    names: Iterable[str],
    config: Mapping[str, Any],
    model: str,
    *,
    graph: str,
    place: str,
    context: BuildContext,
) -> str:
    """The file with a model's numbers: that ``graph``, or what ``choose_weights`` takes; raises as that does, and ``ModelError`` for a
    folder that lacks what goes with it.
    """
    require_tokenizer(names, model)
    if graph:
        return graph
    require_config(names, model, place=place)
    return choose_weights(names, config, model, context=context)


def choose_weights(
    names: Iterable[str], config: Mapping[str, Any], model: str, *, context: BuildContext
) -> str:
    """Which file to take: safetensors when something installed can write this architecture's graph, else a ready-made ONNX, else
    PyTorch's own checkpoint, else safetensors again, for PyTorch to export where that is installed. Of weights in several files it
    is their index. Where code that comes with the model computes it, only the ONNX is the model.

    Raises ``ModelError`` when there is neither and ``UnsupportedModelError`` when the weights cannot be used.
    """
    there = set(names)
    model_type, written = str(config.get("model_type")), context.extensions(AXIS)
    writer = written.get(model_type)
    followed = model_type in FOLLOWED or (writer is not None and writer.identity)
    code = "" if followed else code_of(config, CODED)
    weights = next((name for name in (SAFETENSORS, SHARD_INDEX) if name in there), None)
    if weights and writer and not code:
        return weights
    if onnx := choose_onnx(there, model):
        return onnx
    pickled = next((name for name in (PICKLED, PICKLED_INDEX) if name in there), None)
    if code and (weights or pickled):
        raise UnsupportedModelError(
            f"{model} is computed by code that comes with it ({code}, auto_map in config.json), which edgepack does not run",
            hint="export the model to ONNX yourself and use the .onnx file; where that code computes what "
            f"transformers' own {model_type!r} does, take auto_map out of config.json",
        )
    if pickled and not weights and writer:
        return pickled
    if weights and has_pytorch():
        return weights
    if weights:
        raise UnsupportedModelError(
            f"{model} has the architecture {model_type!r}, which edgepack cannot export as installed",
            hint=f"supported: {', '.join(sorted(written))}; for another encoder {INSTALL_PYTORCH}, put its "
            "model.onnx into the folder, or install a plugin for it" + perhaps_broken(written),
        )
    raise _no_weights(there, model)


def choose_onnx(names: Iterable[str], model: str) -> str | None:
    """The full-precision ONNX graph: model.onnx, onnx/model.onnx, or the only one there is."""
    found = sorted(
        name for name in names if name.endswith(".onnx") and ("/" not in name or name.startswith("onnx/"))
    )
    for usual in ("model.onnx", "onnx/model.onnx"):
        if usual in found:
            return usual
    if len(found) > 1:
        raise ModelError(
            f"{model} has several ONNX files and none is called model.onnx: {', '.join(found)}",
            hint="name the full-precision one: --model FOLDER/FILE.onnx",
        )
    return found[0] if found else None


def in_gguf(name: str) -> UnsupportedModelError:
    """Error about files of llama.cpp."""
    return UnsupportedModelError(
        f"{name} is in GGUF, the format of llama.cpp",
        hint="take the model that it was made from: its folder, or hf:ORG/NAME",
    )


def in_ort_format(file: str) -> ModelError:
    """Error about a file that only a runtime can read."""
    return ModelError(
        f"{file} is in ORT format, which runtimes load but which cannot be converted",
        hint="use the original model or an .onnx file; `edgepack quantize -f onnx` writes one",
    )


def _no_weights(there: set[str], model: str) -> ModelError:
    if finished := sorted(name for name in there if name.endswith(ORT_SUFFIX)):
        return in_ort_format(f"{model}/{finished[0]}")
    pickles = [name for name in _PICKLES if name in there]
    if pickles:
        return ModelError(
            f"{model} has neither model.safetensors nor an .onnx file, only {', '.join(pickles)}",
            hint='pip install torch transformers, then convert: python -c "from transformers import AutoModel as M; '
            "M.from_pretrained('FOLDER').save_pretrained('FOLDER', safe_serialization=True)\"",
        )
    return ModelError(
        f"{model} has neither model.safetensors nor an .onnx file",
        hint="a model folder has config.json, tokenizer.json and model.safetensors (or an .onnx file)",
    )
