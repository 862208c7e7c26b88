"""What sentence-transformers' modules.json makes of token vectors: pooled, projected, normalised, cut."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, get_args

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.read.documents import EDITED, read_json, read_object, read_optional, size_of
from edgepack.models.read.sentence_transformers import SETTINGS, transformer_file
from edgepack.records.model import (
    Dense,
    DenseActivation,
    Layer,
    LayerNorm,
    Pooling,
    Unit,
    WeighedLayers,
)
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
DENSE_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_PREFIX = "pooling_mode_"
_ACTIVATION = "torch.nn.modules.activation."
_ACTIVATIONS: Mapping[str, DenseActivation] = {
    {"Relu": "ReLU", "Gelu": "GELU"}.get(name, name): name for name in get_args(DenseActivation)
}
"""By torch.nn's names."""
_NO_ACTIVATION = "torch.nn.modules.linear.Identity"
_BEHIND = ("Dense", "LayerNorm", "Normalize")
WEIGHED = "WeightedLayerPooling"
_TOKENS, _TEXT = "token_embeddings", "sentence_embedding"


@dataclass(frozen=True, kw_only=True)
class Modules:
    """What modules.json and the files that it names say."""

    pooling: Pooling
    token_dimension: int | None
    """Length of the token vectors that are pooled, if said."""
    files: tuple[str, ...]
    pools_prompts: bool
    """False where a prompt's tokens are left out of the pooling (``include_prompt``)."""


def module_kinds(directory: Path) -> list[str] | None:
    """Class of each module, in order, without what does nothing to a trained model; ``None`` without modules.json."""
    path = directory / "modules.json"
    return [_kind(module) for module in _modules(path)] if path.is_file() else None


def module_folders(directory: Path) -> list[tuple[str, str]] | None:
    """The same with each module's folder, as modules.json says it."""
    path = directory / "modules.json"
    if not path.is_file():
        return None
    return [(_kind(module), str(module.get("path", ""))) for module in _modules(path)]


def read_modules(directory: Path) -> Modules | None:
    """How modules.json says that vectors are made; ``None`` when there is none.

    Raises ``UnsupportedModelError`` for modules or modes that a bundle cannot do, ``ModelError`` for what is invalid.
    """
    path = directory / "modules.json"
    if not path.is_file():
        return None
    modules = list(_modules(path))
    _require_known(modules)
    if str(modules[0].get("path", "")).strip("./"):
        raise UnsupportedModelError(
            f"the weights lie in {modules[0]['path']}, as sentence-transformers before 2.0 wrote them",
            hint="load and save the model once with a current sentence-transformers",
        )
    _require_plain_transformer(directory)
    files = [path]
    configs = {}
    for module in modules[1:]:
        config_path = module_config(
            directory, str(module.get("path", "")), required=_kind(module) != "Normalize"
        )
        configs[id(module)] = read_object(config_path) if config_path else {}
        files += [config_path] if config_path else []
    weighed = None
    if _kind(modules[1]) == WEIGHED:
        weighing = modules.pop(1)
        weighed = _weighed_layers(directory, configs[id(weighing)], directory / str(weighing["path"]))
    for module in modules[2:]:
        _require_text_vectors(configs[id(module)], _kind(module))
    normalize = len(modules) > 2 and _kind(modules[-1]) == "Normalize"
    layers = tuple(
        _layer(_kind(module), configs[id(module)], directory / str(module["path"]))
        for module in modules[2 : len(modules) - normalize]
    )
    pools = configs[id(modules[1])]
    length = pools.get("word_embedding_dimension", pools.get("embedding_dimension"))
    mode, *joined = pooling_modes(pools)
    pooling = Pooling(
        layers=weighed,
        mode=mode,
        joined=tuple(joined),
        dense=layers,
        normalize=normalize,
        cut=cut_of(directory),
    )
    return Modules(
        pooling=pooling,
        token_dimension=length if isinstance(length, int) else None,
        pools_prompts=pools.get("include_prompt") is not False,
        files=tuple(
            file.relative_to(directory).as_posix()
            for file in (
                *files,
                *([weighed.file] if weighed else []),
                *(each.file for each in layers if not isinstance(each, Unit)),
            )
        ),
    )


def _modules(path: Path) -> Sequence[Mapping[str, Any]]:
    modules = read_json(path)
    if not isinstance(modules, list) or not all(
        isinstance(entry, dict) and "type" in entry for entry in modules
    ):
        raise ModelError("modules.json is not a list of modules, each with a type", hint=EDITED)
    ordered = sorted(modules, key=lambda module: module["idx"] if isinstance(module.get("idx"), int) else 0)
    return [module for module in ordered if _kind(module) != "Dropout"]


def _kind(module: Mapping[str, Any]) -> str:
    return str(module["type"]).rpartition(".")[2]


def _require_known(modules: Sequence[Mapping[str, Any]]) -> None:
    kinds = [
        _kind(module) for number, module in enumerate(modules) if number != 1 or _kind(module) != WEIGHED
    ]
    if kinds[:2] != ["Transformer", "Pooling"] or not set(kinds[2:]) <= set(_BEHIND):
        known = ("Transformer", "Pooling", *_BEHIND)
        odd = next((kind for kind in kinds if kind not in known), " → ".join(kinds) or "nothing")
        raise UnsupportedModelError(
            f"modules.json requires {odd}, which bundles do not support",
            hint=f"edgepack takes models of a Transformer, a {WEIGHED} if need be, a Pooling, and then {', '.join(_BEHIND)}",
        )
    foreign = [
        str(module["type"])
        for module in modules
        if not str(module["type"]).startswith("sentence_transformers.")
    ]
    if foreign:
        raise UnsupportedModelError(
            f"modules.json requires {foreign[0]}, which is not a sentence-transformers module",
            hint="edgepack runs no code that comes with a model; export the model to ONNX and use the .onnx file",
        )


def _require_plain_transformer(directory: Path) -> None:
    """The Transformer module must give the last hidden state of each token, of texts as the tokenizer takes them."""
    document = transformer_file(directory)[1]
    inputs = document.get("modality_config")
    of_texts = inputs.get("text") if isinstance(inputs, dict) else inputs
    given = of_texts.get("method_output_name") if isinstance(of_texts, dict) else of_texts
    asked = {
        "module_output_name": document.get("module_output_name") in (None, _TOKENS),
        "modality_config": given in (None, "last_hidden_state"),
        **{
            key: not document.get(key)
            for key in ("processing_kwargs", "query_length", "document_length", "query_expansion")
        },
    }
    odd = next((key for key, plain in asked.items() if not plain), None)
    if odd is not None:
        raise UnsupportedModelError(
            f"sentence_bert_config.json requires {odd} {document[odd]!r}, which bundles do not support",
            hint="edgepack takes models whose Transformer module gives each token's last hidden state",
        )


def _require_text_vectors(config: Mapping[str, Any], kind: str) -> None:
    names = {config.get(key) or _TEXT for key in ("module_input_name", "module_output_name")}
    if names != {_TEXT}:
        raise UnsupportedModelError(
            f"the {kind} module does not turn one text's vector into another, which bundles do not support",
            hint=f"edgepack takes {kind} modules that read and write {_TEXT}",
        )


def _weighed_layers(directory: Path, config: Mapping[str, Any], folder: Path) -> WeighedLayers | None:
    """None where the model's configuration gives no layers: sentence-transformers then leaves the token vectors as they are."""
    if read_optional(directory / "config.json").get("output_hidden_states") is not True:
        return None
    layers, first = size_of(config, "num_hidden_layers", where=folder.name), config.get("layer_start")
    if type(first) is not int or not 0 <= first <= layers:
        raise ModelError(
            f"{folder.name}/config.json: layer_start is {first!r}, expected 0 to {layers}", hint=EDITED
        )
    return WeighedLayers(file=_weights(folder), first=first, layers=layers)


def _layer(kind: str, config: Mapping[str, Any], folder: Path) -> Layer:
    if kind == "Normalize":
        return Unit()
    if kind == "LayerNorm":
        return LayerNorm(file=_weights(folder), size=size_of(config, "dimension", where=folder.name))
    return read_dense(config, folder)


def read_dense(config: Mapping[str, Any], folder: Path) -> Dense:
    """The Dense module in a folder. Raises ``ModelError`` or ``UnsupportedModelError``."""
    return Dense(
        file=_weights(folder),
        inputs=size_of(config, "in_features", where=folder.name),
        outputs=size_of(config, "out_features", where=folder.name),
        bias=config.get("bias") is not False,
        activation=_activation(config, folder),
        residual=bool(config.get("use_residual")),
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


def cut_of(directory: Path) -> int | None:
    """Numbers that a vector is cut to (``truncate_dim``). Raises ``ModelError``."""
    cut = read_optional(directory / SETTINGS).get("truncate_dim")
    if cut is not None and (type(cut) is not int or cut < 1):
        raise ModelError(
            f"{SETTINGS}: truncate_dim is {cut!r}, expected a positive whole number", hint=EDITED
        )
    return cut


def module_config(directory: Path, folder: str, *, required: bool) -> Path | None:
    """config.json of a module's folder, which lies in the model's. Raises ``ModelError``."""
    parts = PurePosixPath(folder).parts
    if ".." in parts or PurePosixPath(folder).is_absolute():
        raise ModelError(
            f"modules.json points outside the model's folder: {folder}",
            hint="take another model: this one was tampered with",
        )
    path = directory.joinpath(*parts, "config.json")
    if parts and path.is_file():
        return path
    if required:
        raise ModelError(
            f"modules.json names {folder}/config.json, which is not there",
            hint="fetch the model again, whole",
        )
    return None


def pooling_modes(config: Mapping[str, Any]) -> list[PoolingMode]:
    """The ways that are switched on, in the old form (a flag each) or the new one (a name, or several)."""
    named = config.get("pooling_mode")
    if named is None:
        on = {
            key.removeprefix(_PREFIX)
            for key, value in config.items()
            if key.startswith(_PREFIX) and value is True
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
