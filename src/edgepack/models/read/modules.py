"""What sentence-transformers' modules.json makes of token vectors: pooled, projected, normalised, cut."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, get_args

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.read.documents import EDITED, flag_of, size_of
from edgepack.models.read.model_folder import CONFIG, MODULES, SETTINGS, ModelFolder, Module
from edgepack.records.layers import Dense, DenseActivation, Layer, LayerNorm, Unit, WeighedLayers
from edgepack.records.model import Pooling
from edgepack.records.target import PoolingMode

MODES: Mapping[str, PoolingMode] = {
    "cls": "cls",
    "cls_token": "cls",
    "max": "max",
    "max_tokens": "max",
    "mean": "mean",
    "mean_tokens": "mean",
    "mean_sqrt_len_tokens": "mean-sqrt-len",
    "weightedmean": "weighted-mean",
    "weightedmean_tokens": "weighted-mean",
    "lasttoken": "last",
}
LONGEST = 200
"""Letters of a folder's path; file systems take 255."""
DENSE_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_PREFIX = "pooling_mode_"
_ACTIVATION = "torch.nn.modules.activation."
_ACTIVATIONS: Mapping[str, DenseActivation] = {
    {"Relu": "ReLU", "Gelu": "GELU"}.get(name, name): name for name in get_args(DenseActivation)
}
"""By torch.nn's names."""
_NO_ACTIVATION = "torch.nn.modules.linear.Identity"
_ARGUMENTS = (
    "model_kwargs", "model_args", "processor_kwargs", "tokenizer_args", "config_kwargs", "config_args",
    "tokenizer_name_or_path",
)  # fmt: skip
"""Arguments for transformers, by their names and those that they had."""
_HOW = {
    "attn_implementation", "device_map", "dtype", "low_cpu_mem_usage", "padding_side", "torch_dtype", "trust_remote_code",
    "use_fast", "use_safetensors",
}  # fmt: skip
"""Of those, what changes no number."""
_BEHIND = ("Dense", "LayerNorm", "Normalize")
WEIGHED = "WeightedLayerPooling"
_TOKENS, _TEXT = "token_embeddings", "sentence_embedding"
_GIVEN = {"head": ("scores", "logits"), "splade": (_TOKENS, "logits")}
"""Kind of model → what its Transformer module gives, by sentence-transformers' and by transformers' name; token vectors otherwise."""


@dataclass(frozen=True, kw_only=True)
class Modules:
    """Settings of modules.json and of the files that it names."""

    pooling: Pooling
    token_dimension: int | None
    """Length of the token vectors that are pooled, if said."""
    files: tuple[str, ...]
    pools_prompts: bool | None
    """False where a prompt's tokens are left out of the pooling (``include_prompt``); ``None`` where that is not said."""


def read_modules(folder: ModelFolder) -> Modules | None:
    """How modules.json says that vectors are made; ``None`` when there is none.

    Raises ``UnsupportedModelError`` for modules or modes that a bundle cannot do, ``ModelError`` for what is invalid.
    """
    if folder.modules is None:
        return None
    _require_known(folder.modules)
    transformer, *behind = folder.modules
    if transformer.folder:
        raise UnsupportedModelError(
            f"the weights lie in {transformer.folder}, as sentence-transformers before 2.0 wrote them",
            hint="load and save the model once with a current sentence-transformers",
        )
    names = [module_config(folder, each.folder, required=each.kind != "Normalize") for each in behind]
    read = [(each, folder.table(name) if name else {}) for each, name in zip(behind, names, strict=True)]
    weighed = _weighed_layers(folder, *read.pop(0)) if read[0][0].kind == WEIGHED else None
    (_, pools), *after = read
    for module, config in after:
        require_inputs(config, module.kind, _TEXT)
    normalize = bool(after) and after[-1][0].kind == "Normalize"
    layers = tuple(_layer(folder, *each) for each in after[: len(after) - normalize])
    # As sentence-transformers does where none is switched on.
    modes: list[PoolingMode] = pooling_modes(pools) if _pools(pools) else ["mean"]
    mode, *joined = modes
    pooling = Pooling(
        layers=weighed,
        mode=mode,
        joined=tuple(joined),
        dense=layers,
        normalize=normalize,
        cut=cut_of(folder),
    )
    said = flag_of(pools, "include_prompt", True, where=names[0] or "")
    length = pools.get("word_embedding_dimension", pools.get("embedding_dimension"))
    weights = [*([weighed] if weighed else []), *(each for each in layers if not isinstance(each, Unit))]
    files = [each.file.relative_to(folder.directory).as_posix() for each in weights]
    return Modules(
        pooling=pooling,
        token_dimension=length if isinstance(length, int) else None,
        pools_prompts=said if "include_prompt" in pools else None,
        files=(MODULES, *(name for name in names if name), *files),
    )


def _require_known(modules: Sequence[Module]) -> None:
    kinds = [each.kind for number, each in enumerate(modules) if number != 1 or each.kind != WEIGHED]
    if kinds[:2] != ["Transformer", "Pooling"] or not set(kinds[2:]) <= set(_BEHIND):
        known = ("Transformer", "Pooling", *_BEHIND)
        odd = next((kind for kind in kinds if kind not in known), " → ".join(kinds) or "nothing")
        raise UnsupportedModelError(
            f"modules.json requires {odd}, which bundles do not support",
            hint=f"edgepack takes models of a Transformer, a {WEIGHED} if need be, a Pooling, and then {', '.join(_BEHIND)}",
        )


def require_own_modules(folder: ModelFolder, kind: str) -> None:
    """Raise ``UnsupportedModelError`` where modules.json names classes that have no more than their names from sentence-transformers."""
    makers = (
        ("sentence_transformers.", "pylate.models.") if kind == "colbert" else ("sentence_transformers.",)
    )
    foreign = [each.type for each in folder.modules or () if not each.type.startswith(makers)]
    if foreign:
        raise UnsupportedModelError(
            f"modules.json requires {foreign[0]}, which is not a sentence-transformers module",
            hint="edgepack runs no code that comes with a model; export the model to ONNX and use the .onnx file",
        )


def require_plain_transformer(folder: ModelFolder, kind: str) -> None:
    """Raise ``UnsupportedModelError`` where the Transformer module gives something else than this kind of model is made of,
    or does not take texts as the tokenizer does.
    """
    document, (named, output) = folder.transformer, _GIVEN.get(kind, (_TOKENS, "last_hidden_state"))
    inputs = document.get("modality_config")
    of_texts = inputs.get("text", "") if isinstance(inputs, dict) else inputs
    said = of_texts if isinstance(of_texts, dict) else {"method_output_name": of_texts}
    # Where there are messages, sentence-transformers puts each text through the chat template.
    chats = isinstance(inputs, dict) and "message" in inputs
    lengths = () if kind == "colbert" else ("query_length", "document_length", "query_expansion")
    asked = {
        "module_output_name": document.get("module_output_name") in (None, named),
        "modality_config": not chats
        and said.get("method_output_name") in (None, output)
        and said.get("method") in (None, "forward"),
        **{key: not document.get(key) for key in ("processing_kwargs", *lengths)},
    }
    odd = next((key for key, plain in asked.items() if not plain), None)
    if odd is not None:
        what = "each token's last hidden state" if output == "last_hidden_state" else output
        raise UnsupportedModelError(
            f"{folder.transformer_file} requires {odd} {document[odd]!r}, which bundles do not support",
            hint=f"edgepack takes models whose Transformer module gives {what}",
        )


def require_no_arguments(folder: ModelFolder) -> None:
    """Refuse a model whose Transformer module is loaded with settings that its files do not have. Raises ``UnsupportedModelError``."""
    document = folder.transformer
    odd = [key for key in _ARGUMENTS if not _changes_nothing(document.get(key))]
    if odd:
        raise UnsupportedModelError(
            f"{folder.transformer_file} has {odd[0]} {str(document[odd[0]])[:200]}, which bundles do not support",
            hint="load and save the model once with sentence-transformers, which writes such settings into the model's own files",
        )


def _changes_nothing(arguments: Any) -> bool:
    """Whether what a file gives transformers' ``from_pretrained`` leaves the model's numbers as they are."""
    return not arguments or (isinstance(arguments, dict) and set(arguments) <= _HOW)


def require_inputs(config: Mapping[str, Any], kind: str, name: str, *, usual: str = _TEXT) -> None:
    """Raise ``UnsupportedModelError`` for a module that reads or writes something else than what is called ``name``."""
    read = config.get("module_input_name") or usual
    if [read, config.get("module_output_name") or read] != [name] * 2:
        of = "one text's vector" if name == _TEXT else "one token's vector"
        raise UnsupportedModelError(
            f"the {kind} module does not turn {of} into another, which bundles do not support",
            hint=f"edgepack takes {kind} modules that read and write {name}",
        )


def _weighed_layers(folder: ModelFolder, module: Module, config: Mapping[str, Any]) -> WeighedLayers | None:
    """None where the model's configuration gives no layers: sentence-transformers then leaves the token vectors as they are."""
    if folder.optional(CONFIG).get("output_hidden_states") is not True:
        return None
    place = folder.directory / module.folder
    layers, first = size_of(config, "num_hidden_layers", where=place.name), config.get("layer_start")
    if type(first) is not int or not 0 <= first <= layers:
        raise ModelError(
            f"{place.name}/config.json: layer_start is {first!r}, expected 0 to {layers}", hint=EDITED
        )
    return WeighedLayers(file=_weights(place), first=first, layers=layers)


def _layer(folder: ModelFolder, module: Module, config: Mapping[str, Any]) -> Layer:
    place = folder.directory / module.folder
    if module.kind == "Normalize":
        return Unit()
    if module.kind == "LayerNorm":
        return LayerNorm(file=_weights(place), size=size_of(config, "dimension", where=place.name))
    return read_dense(config, place)


def read_dense(config: Mapping[str, Any], folder: Path) -> Dense:
    """The Dense module in a folder. Raises ``ModelError`` or ``UnsupportedModelError``."""
    return Dense(
        file=_weights(folder),
        inputs=size_of(config, "in_features", where=folder.name),
        outputs=size_of(config, "out_features", where=folder.name),
        bias=flag_of(config, "bias", True, where=folder.name),
        activation=_activation(config, folder),
        residual=flag_of(config, "use_residual", False, where=folder.name),
    )


def _activation(config: Mapping[str, Any], folder: Path) -> DenseActivation | None:
    said = str(config.get("activation_function", f"{_ACTIVATION}Tanh"))
    name = said.removeprefix(_ACTIVATION)
    if said == _NO_ACTIVATION:
        return None
    if said.startswith(_ACTIVATION) and name in _ACTIVATIONS:
        return _ACTIVATIONS[name]
    raise UnsupportedModelError(
        f"the Dense module in {folder.name} is activated by {said}, which bundles do not support",
        hint=f"edgepack knows torch.nn's {', '.join(sorted(_ACTIVATIONS))} and Identity",
    )


def _weights(folder: Path) -> Path:
    file = next((folder / name for name in DENSE_WEIGHTS if (folder / name).is_file()), None)
    if file is None:
        raise ModelError(
            f"{folder.name} has no model.safetensors",
            hint="load and save the model once with a current sentence-transformers, which writes one",
        )
    return file


def cut_of(folder: ModelFolder) -> int | None:
    """Numbers that a vector is cut to (``truncate_dim``). Raises ``ModelError``."""
    cut = folder.settings.get("truncate_dim")
    if cut is not None and (type(cut) is not int or cut < 1):
        raise ModelError(
            f"{SETTINGS}: truncate_dim is {cut!r}, expected a positive whole number", hint=EDITED
        )
    return cut


def module_config(folder: ModelFolder, place: str, *, required: bool) -> str | None:
    """The name of config.json in a module's folder, which lies in the model's. Raises ``ModelError``."""
    parts = PurePosixPath(place).parts
    if len(place) > LONGEST:
        raise ModelError(f"modules.json names a folder with {len(place)} letters", hint=EDITED)
    if ".." in parts or PurePosixPath(place).is_absolute():
        raise ModelError(
            f"modules.json points outside the model's folder: {place}",
            hint="take another model: this one was tampered with",
        )
    name = "/".join((*parts, CONFIG))
    if parts and folder.has(name):
        return name
    if required:
        raise ModelError(
            f"modules.json names {place}/config.json, which is not there",
            hint="fetch the model again, whole",
        )
    return None


def _pools(config: Mapping[str, Any]) -> bool:
    """Whether a Pooling says how: flags that are all off do not."""
    flags = (value for key, value in config.items() if key.startswith(_PREFIX))
    return config.get("pooling_mode") is not None or any(flags)


def pooling_modes(config: Mapping[str, Any]) -> list[PoolingMode]:
    """The ways that are switched on, in the old form (a flag each) or the new one (a name, or several)."""
    named = config.get("pooling_mode")
    if named is None:
        on = {
            key.removeprefix(_PREFIX)
            for key in config
            if key.startswith(_PREFIX) and flag_of(config, key, False, where="the pooling's settings")
        }
        known = [mode for mode in MODES if mode in on]
        modes = [*known, *sorted(on - set(known))]
    else:
        modes = [str(mode) for mode in named] if isinstance(named, list) else [str(named)]
    if modes and set(modes) <= MODES.keys():
        return [MODES[mode] for mode in modes]
    raise UnsupportedModelError(
        f"the model pools by {' and '.join(sorted(modes)) or 'nothing'}, which bundles do not support",
        hint=f"edgepack pools by {', '.join(get_args(PoolingMode))}, or several of these side by side",
    )
