"""A model that was made small, as a folder that every command and every reader of Hugging Face's layout takes.

Pooling is in the graph, and the folder still says it: whoever reads ``sentence_embedding`` need not pool, and edgepack does not.
"""

import json
import shutil
from collections.abc import Mapping, Set
from dataclasses import asdict
from pathlib import Path
from typing import Any

import onnx

from edgepack.files.store import sha256_of
from edgepack.models.graph.clean import declare_domain
from edgepack.models.read.documents import CARD, LEGAL
from edgepack.models.read.model_folder import SETTINGS, ModelFolder
from edgepack.models.read.modules import MODES
from edgepack.models.read.quantize_record import KEY, MadeSmall
from edgepack.models.read.sentence_transformers import TOKENIZER_FILE
from edgepack.models.read.tokenizer import highest_token, minimal_json, open_tokenizer
from edgepack.records.model import ModelSource, Pooling, PreparedModel
from edgepack.toml_schema import parse_foreign, read_foreign

TOKENIZER_FILES = (TOKENIZER_FILE, "special_tokens_map.json")
"""What else says something of the tokens, by their ids."""
LISTING = ".edgepack-quantize.json"
"""File → SHA-256 of all that was written beside it: anything else in the folder is its user's work."""
MOST = 1 << 20
"""Bytes of it."""


def write_model_folder(prepared: PreparedModel, source: ModelSource, made: MadeSmall, folder: Path) -> None:
    """Everything of ``prepared``, into an empty folder; ``source`` is what it was made from."""
    _write_model(prepared.file, folder)
    (folder / "tokenizer.json").write_text(minimal_json(prepared.source), encoding="utf-8")
    for name, document in _documents(prepared, source, made).items():
        (folder / name).parent.mkdir(exist_ok=True)
        text = json.dumps(document, indent=2, ensure_ascii=False)
        (folder / name).write_text(f"{text}\n", encoding="utf-8")
    for pattern in LEGAL:
        for file in sorted(source.directory.glob(pattern)):
            if file.is_file():
                shutil.copyfile(file, folder / file.name)
    (folder / CARD).write_text(_card(source, made), encoding="utf-8")
    written = {path.relative_to(folder).as_posix(): sha256_of(path) for path in _files(folder)}
    (folder / LISTING).write_text(json.dumps(written, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def files_as_written(folder: Path) -> Set[str] | None:
    """The listing and what is byte for byte as it says; ``None`` for a folder that ``write_model_folder`` has not written."""
    try:
        said = parse_foreign(read_foreign(folder / LISTING, most=MOST))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    found = ((path.relative_to(folder).as_posix(), path) for path in _files(folder))
    return {LISTING, *(name for name, path in found if name in said and said[name] == sha256_of(path))}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _write_model(file: Path, folder: Path) -> None:
    """Other readers than ONNX Runtime want every domain of an .onnx file declared."""
    if file.suffix != ".onnx":
        shutil.copyfile(file, folder / file.name)
        return
    model = onnx.load(str(file))
    declare_domain(model)
    (folder / file.name).write_bytes(model.SerializeToString(deterministic=True))


def _documents(prepared: PreparedModel, source: ModelSource, made: MadeSmall) -> Mapping[str, Any]:
    """Name → content of the JSON files, those of the source where they still hold."""
    config = {**source.config, KEY: asdict(made)}
    folder = ModelFolder(directory=source.directory)
    settings = {key: value for key, value in folder.settings.items() if key != "truncate_dim"}
    if source.prompts:
        settings["prompts"] = dict(source.prompts)
    documents = {
        "config.json": config,
        "sentence_bert_config.json": {"max_seq_length": source.max_length, "do_lower_case": False},
        **_modules(source.pooling, made.dimension),
        **({SETTINGS: settings} if settings else {}),
    }
    if prepared.source.tokenizer != source.tokenizer:
        config["vocab_size"] = highest_token(open_tokenizer(prepared.source.tokenizer)) + 1
        return documents
    about_tokens = {name: folder.optional(name) for name in TOKENIZER_FILES}
    return {**documents, **{name: document for name, document in about_tokens.items() if document}}


def _modules(pooling: Pooling, dimension: int) -> Mapping[str, Any]:
    """Files of sentence-transformers for a pooling; Dense modules and the cut are in the graph alone."""
    kinds = {
        "": "Transformer",
        "1_Pooling": "Pooling",
        **({"2_Normalize": "Normalize"} if pooling.unit else {}),
    }
    modules = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (path, kind) in enumerate(kinds.items())
    ]
    flag = {mode: name for name, mode in MODES.items()}[pooling.mode]
    pools = {"word_embedding_dimension": dimension, f"pooling_mode_{flag}": True}
    return {"modules.json": modules, "1_Pooling/config.json": pools}


def _card(source: ModelSource, made: MadeSmall) -> str:
    """The source's own, and what was done to it; without one, the licence and that."""
    card = source.directory / CARD
    said = f"## Made small by edgepack\n\nFrom {made.origin}, by {made.recipe}: {made.precision}. Pooling is in the graph.\n"
    if card.is_file():
        return f"{card.read_text(encoding='utf-8', errors='replace').rstrip()}\n\n{said}"
    if source.license is None:
        return f"# {source.name}\n\n{said}"
    name = source.license.removeprefix("LicenseRef-")
    fields = f"license: {name}" if name == source.license else f"license: other\nlicense_name: {name}"
    return f"---\n{fields}\n---\n# {source.name}\n\n{said}"
