"""LoRA adapters (PEFT) merged into the weights of the model that they were trained on, as ``merge_and_unload`` of peft does it."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.read.documents import EDITED
from edgepack.models.read.model_folder import ModelFolder
from edgepack.models.read.safetensors import ITEM_BYTES, Array, TensorFile

CONFIG = "adapter_config.json"
WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_BEFORE = "base_model.model."
_LINEAR, _TABLE = ("lora_A.weight", "lora_B.weight"), ("lora_embedding_A", "lora_embedding_B")
_MAGNITUDE = ("lora_magnitude_vector", "lora_magnitude_vector.weight")
_OTHER_FORMS = (
    "use_qalora", "lora_bias", "layer_replication", "target_parameters", "trainable_token_indices", "alora_invocation_tokens",
    "velora_config", "monteclora_config", "megatron_config", "use_bdlora",
)  # fmt: skip
"""Settings of forms that are not merged here."""
_CHANGED_AT_START = ("pissa", "olora", "corda", "loftq", "lora_ga")
"""Ways to begin the training that change the base model's own weights."""


@dataclass(kw_only=True)
class AdapterChange:
    """Change that an adapter makes to one tensor of the base model."""

    module: str = ""
    """As the adapter names it."""
    down: str = ""
    """Of a low rank: the tensor [rank, inputs]; then ``up`` is [outputs, rank]."""
    up: str = ""
    magnitude: str = ""
    """DoRA's: the length of each row [outputs]."""
    whole: str = ""
    """The tensor that takes its place."""


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """An adapter's folder, read."""

    tensors: TensorFile
    settings: Mapping[str, Any]
    transposed: bool
    """Whether the base model keeps its matrices as [inputs, outputs]."""
    changes: Mapping[str, AdapterChange] = field(default_factory=dict)
    """By the tensor's name in the base model."""
    alphas: Mapping[str, tuple[int, Any]] = field(default_factory=dict)
    """As ``_alphas`` reads them."""


def adapter_weights(folder: ModelFolder) -> Path:
    """The file of an adapter's tensors. Raises ``ModelError``."""
    found = next((folder.directory / name for name in WEIGHTS if folder.has(name)), None)
    if found is None:
        raise ModelError(
            f"{folder.directory.name} has {CONFIG}, and no {WEIGHTS[0]}",
            hint="get the adapter whole, or save it again",
        )
    return found


def merge_adapter(base: TensorFile, folder: ModelFolder, destination: Path) -> None:
    """Write the merged weights, float32, as safetensors.

    Raises ``UnsupportedModelError`` for another kind of adapter than LoRA and DoRA, ``ModelError`` for one of another model.
    """
    adapter = _read(base, folder)
    floats = {name: tensor for name, tensor in sorted(base.tensors.items()) if tensor.dtype in ITEM_BYTES}
    header: dict[str, Any] = {}
    end = 0
    for name, tensor in floats.items():
        start, end = end, end + 4 * math.prod(tensor.shape)
        header[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": (start, end)}
    text = json.dumps(header).encode()
    with destination.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for name, tensor in floats.items():
            stream.write(np.ascontiguousarray(_changed(base, name, tensor.shape, adapter), "<f4").tobytes())


def _read(base: TensorFile, folder: ModelFolder) -> Adapter:
    settings = folder.table(CONFIG)
    _require_lora(settings)
    tensors = folder.tensors(adapter_weights(folder))
    endings = _endings(base)
    changes: dict[str, AdapterChange] = {}
    for key in tensors.tensors:
        if len(key) > LONGEST_NAME:
            raise ModelError(f"{tensors.path.name} names a tensor with {len(key)} letters", hint=_AGAIN)
        name = key.removeprefix(_BEFORE).replace(".base_layer.", ".").replace(".modules_to_save.", ".")
        module, end = _split(name)
        change = changes.setdefault(
            _of_base(base, endings, f"{module}.weight" if end else name), AdapterChange(module=module)
        )
        part = _PARTS.get(end, "whole")
        if getattr(change, part):
            raise ModelError(
                f"{tensors.path.name} changes one tensor of the base model twice: {getattr(change, part)} and {key}",
                hint=_AGAIN,
            )
        setattr(change, part, key)
    if not changes:
        raise ModelError(f"{tensors.path.name} holds no tensors", hint=_AGAIN)
    for name, change in changes.items():
        if bool(change.down) != bool(change.up) or (change.magnitude and not change.down):
            raise ModelError(
                f"{tensors.path.name} holds one half of the change of {name}, and not the other", hint=_AGAIN
            )
    return Adapter(
        tensors=tensors,
        settings=settings,
        transposed=bool(settings.get("fan_in_fan_out")),
        changes=changes,
        alphas=_alphas(settings),
    )


def _split(name: str) -> tuple[str, str]:
    """The module that a tensor of an adapter belongs to, and which of its tensors it is; empty: a tensor in its own right."""
    for end in (*_LINEAR, *_TABLE, *_MAGNITUDE):
        if name.endswith(f".{end}"):
            return name.removesuffix(f".{end}"), end
    if "lora_" in name:
        raise UnsupportedModelError(
            f"the adapter holds {name}, which is of no form that edgepack merges", hint=_MERGE_YOURSELF
        )
    return name, ""


_PARTS = {
    **dict.fromkeys((_LINEAR[0], _TABLE[0]), "down"),
    **dict.fromkeys((_LINEAR[1], _TABLE[1]), "up"),
    **dict.fromkeys(_MAGNITUDE, "magnitude"),
}
"""Ends of names → the field of ``AdapterChange``."""
LONGEST_NAME = 500
"""Letters of a tensor's name."""
_AGAIN = "get the adapter again, or save it again with a current peft"
_MERGE_YOURSELF = (
    "merge it with peft: PeftModel.from_pretrained(BASE, ADAPTER).merge_and_unload().save_pretrained(F)"
)


def _require_lora(settings: Mapping[str, Any]) -> None:
    kind = settings.get("peft_type", "LORA")
    if kind != "LORA":
        raise UnsupportedModelError(
            f"the adapter is of the kind {kind}, edgepack merges LoRA", hint=_MERGE_YOURSELF
        )
    if odd := next((key for key in _OTHER_FORMS if settings.get(key)), None):
        raise UnsupportedModelError(
            f"{CONFIG} sets {odd}, which edgepack does not merge", hint=_MERGE_YOURSELF
        )
    start = str(settings.get("init_lora_weights", "")).lower()
    if start.startswith(_CHANGED_AT_START):
        raise UnsupportedModelError(
            f"the adapter was trained from {start}, which changes the base model's weights as well",
            hint=_MERGE_YOURSELF,
        )


def _scale(adapter: Adapter, module: str, rank: int) -> float:
    """alpha / rank, or by the rank's root; alpha may be a module's own: of the first key that means it."""
    parts = module.split(".")
    names = [f"^{module}", *(".".join(parts[start:]) for start in range(len(parts)))]
    meant = [adapter.alphas[name] for name in names if name in adapter.alphas]
    alpha = min(meant, key=lambda each: each[0])[1] if meant else adapter.settings.get("lora_alpha", 8)
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not abs(alpha) <= LARGEST_ALPHA:
        raise ModelError(f"{CONFIG}: alpha is {str(alpha)[:40]}, expected a number", hint=EDITED)
    return alpha / (math.sqrt(rank) if adapter.settings.get("use_rslora") else rank)


LARGEST_ALPHA = 1e9


def _alphas(settings: Mapping[str, Any]) -> Mapping[str, tuple[int, Any]]:
    """alpha_pattern: the name of a module after ``^``, or the last parts of it → which key it is, alpha.

    To peft a key is a regular expression, of which a stranger's may take for ever. Raises ``UnsupportedModelError``.
    """
    patterns = settings.get("alpha_pattern") or {}
    if not isinstance(patterns, dict):
        raise ModelError(f"{CONFIG}: alpha_pattern is no JSON object", hint=EDITED)
    found: dict[str, tuple[int, Any]] = {}
    for at, (pattern, alpha) in enumerate(patterns.items()):
        name = pattern.replace("\\.", ".")
        if not name.removeprefix("^").replace("_", "").replace(".", "").replace("-", "").isalnum():
            raise UnsupportedModelError(
                f"{CONFIG}: alpha_pattern has {pattern[:80]!r}, edgepack reads names of modules there",
                hint=_MERGE_YOURSELF,
            )
        found.setdefault(name, (at, alpha))
    return found


def _endings(base: TensorFile) -> Mapping[str, list[str]]:
    """The base model's tensors by each of the ways in which their names end."""
    found: dict[str, list[str]] = {}
    for name in base.tensors:
        parts = name[:LONGEST_NAME].split(".")
        for start in range(len(parts)):
            found.setdefault(".".join(parts[start:]), []).append(name)
    return found


def _of_base(base: TensorFile, endings: Mapping[str, list[str]], name: str) -> str:
    """The base model's name of a tensor, before which training code may have put something, or transformers. Raises ``ModelError``."""
    parts = name.split(".")
    for start in range(len(parts) - 1):
        ending = ".".join(parts[start:])
        if ending in base.tensors:
            return ending
        found = endings.get(ending, [])
        if len(found) == 1:
            return found[0]
        # Behind a layer's number a name would be any layer's.
        if found or parts[start].isdigit():
            break
    raise ModelError(
        f"the adapter changes {name}, which {base.path.name} of its base model does not have",
        hint="the two are of different models",
    )


def _changed(base: TensorFile, name: str, shape: tuple[int, ...], adapter: Adapter) -> Array:
    before = base.read(name, shape)
    change = adapter.changes.get(name)
    if change is None:
        return before
    tensors = adapter.tensors
    if change.whole:
        before = tensors.read(change.whole, shape)
    if not change.down:
        return before
    is_table = change.down.endswith(_TABLE[0])
    turned = is_table or adapter.transposed
    down, up = (tensors.tensors[key].shape for key in (change.down, change.up))
    # Before the product, which may be of any size.
    made = (up[0], down[1]) if len(up) == len(down) == 2 and up[1] == down[0] > 0 else None
    if made is None or (made[::-1] if turned else made) != shape:
        raise ModelError(
            f"the adapter's change of {name} is {list(up)} by {list(down)}, the base model has {list(shape)}",
            hint="the two are of different models",
        )
    with np.errstate(all="ignore"):
        merged = _merged(before, change, adapter, turned=turned)
    if not np.isfinite(merged).all():
        raise ModelError(
            f"the adapter makes numbers of {name} that are not finite",
            hint="it was damaged in training or conversion; get it again",
        )
    return merged


def _merged(before: Array, change: AdapterChange, adapter: Adapter, *, turned: bool) -> Array:
    tensors = adapter.tensors
    down, up = (tensors.read(key, tensors.tensors[key].shape) for key in (change.down, change.up))
    delta = _scale(adapter, change.module, len(down)) * (up @ down)
    merged: Array = (before + (delta.T if turned else delta)).astype(np.float32)
    if not change.magnitude:
        return merged
    axis = 0 if adapter.transposed else 1
    said = tensors.tensors[change.magnitude].shape
    if math.prod(said) != merged.shape[1 - axis]:
        raise ModelError(
            f"the adapter's {change.magnitude} has shape {list(said)}, the base model's tensor {list(merged.shape)}",
            hint="the two are of different models",
        )
    lengths = tensors.read(change.magnitude, said).reshape(-1)
    factors = np.expand_dims(lengths / np.linalg.norm(merged, axis=axis), axis)
    return (factors * merged).astype(np.float32)
