"""What sentence-transformers' modules.json makes of token vectors: pooled, projected, normalised, cut."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.read.documents import read_json, read_object, read_optional, size_of
from edgepack.models.read.sentence_transformers import SETTINGS, transformer_file
from edgepack.records.model import Dense, Pooling
from edgepack.records.target import PoolingMode

MODES: Mapping[str, PoolingMode] = {
    "mean": "mean",
    "mean_tokens": "mean",
    "cls": "cls",
    "cls_token": "cls",
    "max": "max",
    "max_tokens": "max",
    "mean_sqrt_len_tokens": "mean-sqrt-len",
    "weightedmean": "weighted-mean",
    "weightedmean_tokens": "weighted-mean",
    "lasttoken": "last",
}
DENSE_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_PREFIX = "pooling_mode_"
_ACTIVATIONS: Mapping[str, Literal["Tanh", "Relu", "Sigmoid"] | None] = {
    "torch.nn.modules.linear.Identity": None,
    "torch.nn.modules.activation.Tanh": "Tanh",
    "torch.nn.modules.activation.ReLU": "Relu",
    "torch.nn.modules.activation.Sigmoid": "Sigmoid",
}
_TOKENS, _TEXT = "token_embeddings", "sentence_embedding"


@dataclass(frozen=True, kw_only=True)
class Modules:
    """What modules.json and the files that it names say."""

    pooling: Pooling
    token_dimension: int | None
    """Length of the token vectors that are pooled, if said."""
    files: tuple[str, ...]


def module_kinds(directory: Path) -> list[str] | None:
    """Class of each module, in order, without what does nothing to a trained model; ``None`` without modules.json."""
    path = directory / "modules.json"
    return [_kind(module) for module in _modules(path)] if path.is_file() else None


def read_modules(directory: Path) -> Modules | None:
    """How modules.json says that vectors are made; ``None`` when there is none.

    Raises ``UnsupportedModelError`` for modules or modes that a bundle cannot do, ``ModelError`` for what is invalid.
    """
    path = directory / "modules.json"
    if not path.is_file():
        return None
    modules = _modules(path)
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
        config_path = _module_config(
            directory, str(module.get("path", "")), required=_kind(module) != "Normalize"
        )
        configs[id(module)] = read_object(config_path) if config_path else {}
        files += [config_path] if config_path else []
    dense = tuple(
        _dense(configs[id(module)], directory / str(module["path"]))
        for module in modules
        if _kind(module) == "Dense"
    )
    for module in modules[2:]:
        _require_text_vectors(configs[id(module)], _kind(module))
    pools = configs[id(modules[1])]
    length = pools.get("word_embedding_dimension", pools.get("embedding_dimension"))
    pooling = Pooling(
        mode=pooling_mode(pools),
        dense=dense,
        normalize=_kind(modules[-1]) == "Normalize",
        cut=cut_of(directory),
    )
    return Modules(
        pooling=pooling,
        token_dimension=length if isinstance(length, int) else None,
        files=tuple(
            file.relative_to(directory).as_posix() for file in (*files, *(each.file for each in dense))
        ),
    )


def _modules(path: Path) -> Sequence[Mapping[str, Any]]:
    modules = read_json(path)
    if not isinstance(modules, list) or not all(
        isinstance(entry, dict) and "type" in entry for entry in modules
    ):
        raise ModelError("modules.json is not a list of modules, each with a type")
    ordered = sorted(modules, key=lambda module: module["idx"] if isinstance(module.get("idx"), int) else 0)
    return [module for module in ordered if _kind(module) != "Dropout"]


def _kind(module: Mapping[str, Any]) -> str:
    return str(module["type"]).rpartition(".")[2]


def _require_known(modules: Sequence[Mapping[str, Any]]) -> None:
    kinds = [_kind(module) for module in modules]
    middle = kinds[2:-1] if kinds[-1:] == ["Normalize"] else kinds[2:]
    if kinds[:2] != ["Transformer", "Pooling"] or set(middle) - {"Dense"}:
        known = ("Transformer", "Pooling", "Dense", "Normalize")
        odd = next((kind for kind in kinds if kind not in known), " → ".join(kinds) or "nothing")
        raise UnsupportedModelError(
            f"modules.json requires {odd}, which bundles do not support",
            hint="edgepack takes models of a Transformer, a Pooling and, if need be, Dense modules and a Normalize module",
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
    if names != {_TEXT} or config.get("use_residual"):
        raise UnsupportedModelError(
            f"the {kind} module does not turn one text's vector into another, which bundles do not support",
            hint=f"edgepack takes {kind} modules that read and write {_TEXT}, without a residual",
        )


def _dense(config: Mapping[str, Any], folder: Path) -> Dense:
    name = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    if name not in _ACTIVATIONS:
        raise UnsupportedModelError(
            f"the Dense module in {folder.name} is activated by {name}, which bundles do not support",
            hint=f"edgepack knows {', '.join(each.rpartition('.')[2] for each in _ACTIVATIONS)}",
        )
    file = next((folder / name for name in DENSE_WEIGHTS if (folder / name).is_file()), None)
    if file is None:
        raise ModelError(
            f"{folder.name} has no model.safetensors",
            hint="load and save the model once with a current sentence-transformers, which writes one",
        )
    return Dense(
        file=file,
        inputs=size_of(config, "in_features", where=folder.name),
        outputs=size_of(config, "out_features", where=folder.name),
        bias=config.get("bias") is not False,
        activation=_ACTIVATIONS[name],
    )


def cut_of(directory: Path) -> int | None:
    """Numbers that a vector is cut to (``truncate_dim``). Raises ``ModelError``."""
    cut = read_optional(directory / SETTINGS).get("truncate_dim")
    if cut is not None and (type(cut) is not int or cut < 1):
        raise ModelError(f"{SETTINGS}: truncate_dim is {cut!r}, expected a positive whole number")
    return cut


def _module_config(directory: Path, folder: str, *, required: bool) -> Path | None:
    parts = PurePosixPath(folder).parts
    if ".." in parts or PurePosixPath(folder).is_absolute():
        raise ModelError(f"modules.json points outside the model's folder: {folder}")
    path = directory.joinpath(*parts, "config.json")
    if parts and path.is_file():
        return path
    if required:
        raise ModelError(f"modules.json names {folder}/config.json, which is not there")
    return None


def pooling_mode(config: Mapping[str, Any]) -> PoolingMode:
    """The one pooling mode that is switched on, in the old form (a flag each) or the new one (a name)."""
    named = config.get("pooling_mode")
    if named is None:
        modes = [
            key.removeprefix(_PREFIX) for key, on in config.items() if key.startswith(_PREFIX) and on is True
        ]
    else:
        modes = [str(mode) for mode in named] if isinstance(named, list) else [str(named)]
    if len(modes) == 1 and modes[0] in MODES:
        return MODES[modes[0]]
    raise UnsupportedModelError(
        f"the model pools by {' and '.join(sorted(modes)) or 'nothing'}, which bundles do not support",
        hint=f"edgepack pools by one of: {', '.join(get_args(PoolingMode))}",
    )
