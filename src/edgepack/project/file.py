"""The project file: which models are made for which targets."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgepack.errors import UsageError
from edgepack.plugins.chosen import PROJECT_FILES
from edgepack.records.target import GateLevel, PoolingMode, Reading
from edgepack.typed import Malformed, load_toml, read_table

HINT = '[[bundle]]\nmodel = "./my-model"\ntargets = ["linux-x86-min"]'


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One ``[[bundle]]``: a model, and the targets that it is made for."""

    targets: tuple[str, ...]
    model: str | None = None
    """What ``--model`` takes; a path is relative to the project file."""
    output: str = "dist"
    recipe: str | None = None
    gate: GateLevel | None = None
    packages: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the target with their values, as ``--set`` has them."""
    pooling: PoolingMode | None = None
    normalize: bool | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    treat_as_embedding: bool = False

    @property
    def reading(self) -> Reading:
        """How the model is to be read."""
        return Reading(
            pooling=self.pooling,
            normalize=self.normalize,
            prompts=self.prompts,
            treat_as_embedding=self.treat_as_embedding,
        )


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project file, read."""

    file: Path
    bundles: tuple[Wanted, ...]


@dataclass(frozen=True, kw_only=True)
class _File:
    bundle: tuple[Wanted, ...] = ()
    plugins: tuple[str, ...] = ()
    """Read where plugins are loaded (``plugins.chosen``)."""


def find_project(named: Path | None = None) -> Project:
    """The project of a file, or of the current folder: ``edgepack.toml``, else ``[tool.edgepack]`` of ``pyproject.toml``.

    Paths in it become absolute. Raises ``UsageError`` for a file that is not there or says something wrong.
    """
    if named is not None:
        tables = ("tool", "edgepack") if named.name == "pyproject.toml" else ()
        return _read(named, tables)
    for name, tables in PROJECT_FILES:
        if Path(name).is_file() and (found := _read(Path(name), tables)).bundles:
            return found
    raise UsageError(
        "there is no project here: neither edgepack.toml nor pyproject.toml names a bundle",
        hint=f"an edgepack.toml may say: {HINT.replace(chr(10), ' ⏎ ')}",
    )


def _read(file: Path, tables: tuple[str, ...]) -> Project:
    try:
        table = load_toml(file)
        for name in tables:
            table = table.get(name, {})
        read = read_table(_File, table)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error}", hint="name a project file") from error
    except Malformed as error:
        raise UsageError(f"{file}: {error}", hint=error.hint or "see docs/project.md for all keys") from error
    return Project(file=file, bundles=tuple(_anchored(each, file.absolute().parent) for each in read.bundle))


def _anchored(wanted: Wanted, folder: Path) -> Wanted:
    """With paths that are relative to the project file made absolute."""
    model = wanted.model
    if model is not None and (model.startswith((".", "/", "~")) or (folder / model).exists()):
        model = str(folder / Path(model).expanduser())
    targets = tuple(str(folder / name) if name.endswith(".toml") else name for name in wanted.targets)
    return replace(wanted, model=model, targets=targets, output=str(folder / wanted.output))
