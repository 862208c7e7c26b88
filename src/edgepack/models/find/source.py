"""A model in: whatever the user named, found, fetched, checked and read."""

import difflib
import re
from glob import escape
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import ModelError
from edgepack.files.folder import expanded
from edgepack.models.find.adapter import fetched_adapter, is_adapter, merged_model
from edgepack.models.find.catalogue import (
    CATALOGUE_PREFIX,
    ModelCatalogue,
    ingest_entry,
    load_catalogue,
    with_known_facts,
)
from edgepack.models.find.decide import ModelRequest
from edgepack.models.find.folder import read_folder
from edgepack.models.find.hub import HUB_PREFIX, parse_repository
from edgepack.models.find.remote import find_remote, ingest_remote
from edgepack.models.find.wheel import WHEEL_PREFIX, parse_requirement
from edgepack.models.read import hub_layout
from edgepack.models.read.documents import CARD, LEGAL, require_own
from edgepack.models.read.model_folder import ModelFolder
from edgepack.records.model import ModelSource
from edgepack.records.target import UNSAID, Reading
from edgepack.targets import require_reading

FORMS = (
    "a folder, an .onnx file beside its tokenizer.json, hf:ORG/NAME[@REVISION], pypi:PACKAGE==VERSION, an https "
    "address, that of a plugin's source, or a name of the catalogue"
)


def ingest(model: str | None, *, reading: Reading = UNSAID, context: BuildContext) -> ModelSource:
    """The model that ``--model`` names (``FORMS``); with ``None`` the catalogue's default.

    An origin out of a manifest will do as well. What is fetched is kept in ``context.store``: a second call needs no
    network. Raises ``ModelError``,
    ``UnsupportedModelError``, ``DownloadError`` or ``HashMismatchError``; ``UsageError`` for settings that there are not.
    """
    require_reading(reading)
    source = _ingest(model, reading, context)
    # It becomes a line of packages' metadata, after which others would say what is to be installed, too.
    if not source.name.isprintable():
        raise ModelError(
            f"a model cannot be called {source.name[:100]!a}",
            hint="rename its folder: letters that cannot be shown, line breaks among them, are no name",
        )
    for warning in source.warnings:
        context.warn(warning)
    return source


def read_model(folder: Path, *, context: BuildContext) -> ModelSource:
    """The model in a folder as ``prepare_model`` of a builder gets it, for tests of a builder's steps: ``edgepack.testing`` writes small
    ones, ``host_context`` makes a context.

    Raises ``ModelError`` or ``UnsupportedModelError``.
    """
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder", hint="name the folder of a model")
    return ingest(str(folder.absolute()), context=context)


def _ingest(model: str | None, reading: Reading, context: BuildContext) -> ModelSource:
    catalogue = load_catalogue()
    if model is None:
        model = catalogue.default
    elif model.startswith(CATALOGUE_PREFIX):
        model = model.removeprefix(CATALOGUE_PREFIX)
    elif (remote := find_remote(model, context=context)) is not None:
        is_known = remote.origin.startswith(HUB_PREFIX)
        entry = catalogue.find(parse_repository(remote.origin)[0]) if is_known else None
        known = entry.pooling if entry else None
        if is_adapter(remote.files):
            asked = ModelRequest(name=remote.name, origin=remote.origin, reading=reading)
            folder = merged_model(fetched_adapter(remote, context=context), fetched=True, context=context)
            return read_folder(folder, asked, context=context)
        source = ingest_remote(remote, reading=reading, known=known, context=context)
        return with_known_facts(source, entry)
    elif (path := _existing(model)) is not None:
        return _ingest_path(path, reading, context)
    entry = catalogue.find(model)
    if entry is None:
        raise _unknown(model, catalogue)
    return ingest_entry(entry, reading=reading, context=context)


def _existing(model: str) -> Path | None:
    if not model:
        return None
    path = expanded(model)
    try:
        return path.absolute() if path.exists() else None
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {model}: {error}", hint="check the path") from error


def name_of(model: str | None) -> str | None:
    """Name that a model will have, told from how it is named alone; ``None`` where that is not known before it is asked for."""
    catalogue = load_catalogue()
    model = catalogue.default if model is None else model.removeprefix(CATALOGUE_PREFIX)
    if model.startswith(HUB_PREFIX):
        return parse_repository(model)[0]
    if model.startswith(WHEEL_PREFIX):
        return parse_requirement(model)[0]
    if re.match(r"[a-z][a-z0-9+.-]+:", model, re.IGNORECASE):
        return None
    if (path := _existing(model)) is not None:
        return _name_of_path(path)
    entry = catalogue.find(model)
    if entry is None:
        raise _unknown(model, catalogue)
    return entry.name


def _name_of_path(path: Path) -> str:
    """Name of a folder, or a graph in one."""
    if path.suffix == ".onnx" and path.is_file():
        name = _folder_of(path).resolve().name if path.stem == "model" else path.stem
    else:
        name = path.resolve().name
    return name or "model"


def _folder_of(graph: Path) -> Path:
    """The model's folder; the tokenizer may lie one higher than the graph."""
    folder = graph.parent
    return folder.parent if folder.name == "onnx" and not (folder / "tokenizer.json").is_file() else folder


def _instead_of(path: Path) -> str:
    """Hint: the name to give in the place of a file that is no model."""
    if path.suffix == ".safetensors":
        return "name the folder that it is in"
    if path.suffix == ".whl" and len(words := path.stem.split("-")) > 2:
        return f"name the package instead: pypi:{words[0].replace('_', '-')}=={words[1]}"
    return f"--model takes {FORMS}"


def _ingest_path(path: Path, reading: Reading, context: BuildContext) -> ModelSource:
    if path.is_dir():
        name = _name_of_path(path)
        context.note(name)
        _require_own_files(path)
        adapted = is_adapter(ModelFolder(directory=path).names)
        folder = merged_model(path, context=context) if adapted else path
        return read_folder(folder, ModelRequest(name=name, origin=name, reading=reading), context=context)
    if path.suffix == hub_layout.ORT_SUFFIX:
        raise hub_layout.in_ort_format(path.name)
    if path.suffix == hub_layout.GGUF_SUFFIX:
        raise hub_layout.in_gguf(path.name)
    if path.suffix != ".onnx":
        raise ModelError(
            f"{path.name} is neither a folder nor an .onnx file",
            hint=_instead_of(path),
        )
    context.note(path.name)
    folder = _folder_of(path)
    _require_own_files(folder)
    graph = path.relative_to(folder).as_posix()
    asked = ModelRequest(name=_name_of_path(path), origin=path.name, graph=graph, reading=reading)
    return read_folder(folder, asked, context=context)


def _require_own_files(folder: Path) -> None:
    """Raises ``ModelError`` for a file that says what the model is, or goes with it or a module of it as it is, and leads elsewhere.

    All of them come into what is made of the model, and that is published. Weights may be links to wherever they are kept.
    """
    said = hub_layout.descriptions(ModelFolder(directory=folder).names)
    named = (escape(name) for name in said if not name.endswith(hub_layout.TENSORS))
    texts = (f"{place}{pattern}" for pattern in (CARD, *LEGAL) for place in ("", "*/"))
    require_own(folder, (*named, *texts))


def _unknown(model: str, catalogue: ModelCatalogue) -> ModelError:
    if re.search(r"^[.~/]|[\\]|\.onnx$|/$", model):
        return ModelError(f"{model} does not exist", hint=f"--model takes {FORMS}")
    names = [name for entry in catalogue.entries for name in (entry.name, entry.short_name)]
    folded = {name.lower(): name for name in names}
    near = [folded[name] for name in difflib.get_close_matches(model.lower(), folded, n=2, cutoff=0.6)]
    if near:
        hint = f"did you mean {' or '.join(near)}? --model takes {FORMS}"
    elif re.fullmatch(r"[\w.-]+/[\w.-]+", model):
        hint = f"a model of the hub is written {HUB_PREFIX}{model}; a folder must exist"
    else:
        hint = (
            f"in the catalogue: {', '.join(entry.name for entry in catalogue.entries)}; --model takes {FORMS}"
        )
    return ModelError(f"there is no model named {model or repr(model)}", hint=hint)
