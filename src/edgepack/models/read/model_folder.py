"""The folder of a model: every document in it is parsed once, when it is first asked for. Readers are functions of it that return evidence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from edgepack.errors import ModelError
from edgepack.models.read.documents import EDITED, read_json, require_object
from edgepack.models.read.hub_layout import text_part
from edgepack.models.read.safetensors import TensorFile, open_tensors

CONFIG, MODULES, SETTINGS = "config.json", "modules.json", "config_sentence_transformers.json"
LENGTH_FILES = (
    "sentence_bert_config.json",
    *(f"sentence_{kind}_config.json" for kind in ("roberta", "distilbert", "camembert", "albert")),
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
)
"""What the Transformer module's own file is called, newer versions' name first."""
_IDLE = "Dropout"
"""The class of a module that does nothing to a trained model."""


@dataclass(frozen=True, kw_only=True)
class Module:
    """An entry of modules.json."""

    type: str
    """Its class, with the Python module that it is in."""
    folder: str
    """Below the model's folder; empty: that folder itself."""

    @property
    def kind(self) -> str:
        """Its class alone."""
        return self.type.rpartition(".")[2]


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """A folder, which does not change while it is read. Its properties raise ``ModelError`` for a document that is damaged."""

    directory: Path
    _documents: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _tensors: dict[Path, TensorFile] = field(default_factory=dict, init=False, repr=False, compare=False)

    def has(self, name: str) -> bool:
        return (self.directory / name).is_file()

    def document(self, name: str) -> Any:
        """The content of a JSON file."""
        if name not in self._documents:
            self._documents[name] = read_json(self.directory / name)
        return self._documents[name]

    def table(self, name: str) -> Mapping[str, Any]:
        """Content of a file that must hold a JSON object."""
        return require_object(self.document(name), Path(name).name)

    def optional(self, name: str) -> Mapping[str, Any]:
        """Content of a file; empty when there is no such file."""
        return self.table(name) if self.has(name) else {}

    def tensors(self, file: Path) -> TensorFile:
        """The header of a file with weights, which may be the index of several."""
        if file not in self._tensors:
            self._tensors[file] = open_tensors(file)
        return self._tensors[file]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """POSIX paths of the files in the folder and in the folders right below it, hidden ones left out, sorted."""
        found = [*self.directory.glob("*"), *self.directory.glob("*/*")]
        names = (path.relative_to(self.directory).as_posix() for path in found if path.is_file())
        return tuple(sorted(name for name in names if not name.startswith(".") and "/." not in name))

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """config.json; of a model of several media, its part on text."""
        found = text_part(self.optional(CONFIG))
        if not isinstance(found.get("model_type", ""), str | None):
            raise ModelError(f"{CONFIG}: model_type is no text", hint=EDITED)
        return found

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings of sentence-transformers for the model as a whole."""
        return self.optional(SETTINGS)

    @cached_property
    def modules(self) -> tuple[Module, ...] | None:
        """The modules as they are listed, without those that do nothing to a trained model; ``None`` without modules.json.

        sentence-transformers does not read ``idx``, and of two with one name it has the second alone.
        """
        if not self.has(MODULES):
            return None
        said = self.document(MODULES)
        if not isinstance(said, list) or not all(isinstance(each, dict) and "type" in each for each in said):
            raise ModelError(f"{MODULES} is not a list of modules, each with a type", hint=EDITED)
        names = [each["name"] for each in said if isinstance(each.get("name"), str)]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ModelError(f"{MODULES} has two modules of the name {twice!r}", hint=EDITED)
        found = (Module(type=str(each["type"]), folder=_place(str(each.get("path", "")))) for each in said)
        return tuple(each for each in found if each.kind != _IDLE)

    @property
    def kinds(self) -> tuple[str, ...] | None:
        """The class of each module."""
        return None if self.modules is None else tuple(each.kind for each in self.modules)

    @cached_property
    def transformer_file(self) -> str:
        """The name of the Transformer module's own file, whether it is there or not; one that says nothing is passed over."""
        return next((name for name in LENGTH_FILES if self.optional(name)), LENGTH_FILES[0])

    @property
    def transformer(self) -> Mapping[str, Any]:
        """The content of that file."""
        return self.optional(self.transformer_file)


def _place(path: str) -> str:
    """A folder below the model's, without ``.``; one that leads out of it stays as it is."""
    parts = PurePosixPath(path).parts
    return path if ".." in parts or path.startswith("/") else "/".join(parts)
