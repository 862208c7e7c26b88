"""How a model's vectors are to be made, as sentence-transformers writes it beside the weights."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.read.documents import read_json, read_object, read_optional
from edgepack.records.model import Pooling
from edgepack.records.target import PoolingMode

KNOWN_MODULES = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])

_MODES: Mapping[str, PoolingMode] = {
    "mean": "mean",
    "mean_tokens": "mean",
    "cls": "cls",
    "cls_token": "cls",
    "weightedmean": "weighted-mean",
    "weightedmean_tokens": "weighted-mean",
    "lasttoken": "last",
}
_PREFIX = "pooling_mode_"

FALLBACK_LENGTH = 512
UNLIMITED = 1_000_000
"""tokenizer_config.json says 1e30 and the like for a model without a limit."""

# Position ids of these begin after the padding id, so that the table has rows which no token reaches.
_OFFSET_POSITIONS = frozenset({"roberta", "xlm-roberta", "camembert", "mpnet"})


def read_pooling(
    directory: Path, *, note: Callable[[str], None]
) -> tuple[Pooling, int | None, tuple[str, ...]]:
    """Pooling, the word embedding dimension that it expects (if said), and the files that say so.

    Raises ``UnsupportedModelError`` for modules or modes that a bundle cannot do.
    """
    path = directory / "modules.json"
    if not path.is_file():
        note("no modules.json: mean pooling and L2 normalisation assumed")
        return Pooling(), None, ()
    modules = _modules(path)
    kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
    if kinds not in KNOWN_MODULES:
        odd = next((kind for kind in kinds if kind not in KNOWN_MODULES[1]), " → ".join(kinds) or "nothing")
        raise UnsupportedModelError(
            f"modules.json asks for {odd}, which a bundle cannot do",
            hint="edgepack takes models of a Transformer, a Pooling and, if need be, a Normalize module",
        )
    if str(modules[0].get("path", "")).strip("./"):
        raise UnsupportedModelError(
            f"the weights lie in {modules[0]['path']}, as sentence-transformers before 2.0 wrote them",
            hint="load and save the model once with a current sentence-transformers",
        )
    config_path = _module_config(directory, str(modules[1].get("path", "1_Pooling")))
    config = read_object(config_path)
    pooling = Pooling(mode=_mode(config), normalize=kinds[-1] == "Normalize")
    used = ("modules.json", config_path.relative_to(directory).as_posix())
    dimension = config.get("word_embedding_dimension")
    return pooling, dimension if isinstance(dimension, int) else None, used


def _modules(path: Path) -> Sequence[Mapping[str, Any]]:
    modules = read_json(path)
    if not isinstance(modules, list) or not all(
        isinstance(entry, dict) and "type" in entry for entry in modules
    ):
        raise ModelError("modules.json is not a list of modules, each with a type")
    return sorted(modules, key=lambda module: module["idx"] if isinstance(module.get("idx"), int) else 0)


def _module_config(directory: Path, folder: str) -> Path:
    parts = PurePosixPath(folder).parts
    if ".." in parts or PurePosixPath(folder).is_absolute():
        raise ModelError(f"modules.json points out of the model's folder: {folder}")
    path = directory.joinpath(*parts, "config.json")
    if not path.is_file():
        raise ModelError(f"modules.json names {folder}/config.json, which is not there")
    return path


def _mode(config: Mapping[str, Any]) -> PoolingMode:
    """The one pooling mode that is switched on, in the old form (a flag each) or the new one (a name)."""
    named = config.get("pooling_mode")
    if named is None:
        modes = [
            key.removeprefix(_PREFIX) for key, on in config.items() if key.startswith(_PREFIX) and on is True
        ]
    else:
        modes = [str(mode) for mode in named] if isinstance(named, list) else [str(named)]
    if len(modes) == 1 and modes[0] in _MODES:
        return _MODES[modes[0]]
    raise UnsupportedModelError(
        f"the model pools by {' and '.join(sorted(modes)) or 'nothing'}, which a bundle cannot do",
        hint="edgepack pools by mean, position-weighted mean, cls and last token",
    )


def read_prompts(
    directory: Path, *, note: Callable[[str], None]
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """What is to be put before texts, by purpose, and the file that says so. Raises ``ModelError``."""
    name = "config_sentence_transformers.json"
    document = read_optional(directory / name)
    prompts = document.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
        raise ModelError(f"{name}: prompts is not a table of texts by purpose")
    said = {str(purpose): text for purpose, text in prompts.items() if text}
    if document.get("default_prompt_name") in said:
        note(f"{name} names a default prompt; a bundle puts none before a text unasked")
    return said, (name,) if said else ()


def read_max_length(
    directory: Path, config: Mapping[str, Any], *, note: Callable[[str], None]
) -> tuple[int, tuple[str, ...]]:
    """Tokens that the model takes at most, and the files that say so."""
    positions = _positions(config)
    for name, key in (
        ("sentence_bert_config.json", "max_seq_length"),
        ("tokenizer_config.json", "model_max_length"),
    ):
        said = read_optional(directory / name).get(key)
        if isinstance(said, bool) or not isinstance(said, int | float) or not 2 <= said < UNLIMITED:
            continue
        if positions is not None and said > positions:
            note(
                f"{name} allows {said:.0f} tokens, the model has {positions} positions: longer texts are cut there"
            )
            return positions, (name,)
        return int(said), (name,)
    if positions is None:
        note(f"nothing says how long texts may be: cut after {FALLBACK_LENGTH} tokens")
    return positions or FALLBACK_LENGTH, ()


def _positions(config: Mapping[str, Any]) -> int | None:
    positions = config.get("n_positions", config.get("max_position_embeddings"))
    if config.get("rotary_scaling_factor"):
        # Beyond these the frequencies depend on the longest text of a batch; up to here they do not.
        positions = config.get("max_trained_positions", positions)
    if isinstance(positions, bool) or not isinstance(positions, int) or positions < 2:
        return None
    if config.get("model_type") in _OFFSET_POSITIONS:
        padding = config.get("pad_token_id")
        return positions - (padding if isinstance(padding, int) else 1) - 1
    return positions
