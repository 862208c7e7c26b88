"""The project file: which models are made for which targets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgepack.errors import UsageError, reason_of
from edgepack.plugins.enabled import PROJECT_FILES
from edgepack.records.target import GateLevel, PoolingMode, Reading
from edgepack.toml_schema import Malformed, check_value, load_toml, read_table

HINT = '[[bundle]]\nmodel = "./my-model"\ntargets = ["linux-x86-min"]'


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One ``[[bundle]]``: a model, and the targets that it is made for."""

    targets: tuple[str, ...]
    model: str | None = None
    """What ``--model`` takes; a path is relative to the project file."""
    models: tuple[str, ...] = ()
    """Several, in its place; a path may have ``*``."""
    output: str = "dist"
    recipe: str | None = None
    recipes: tuple[str, ...] = ()
    """Several, in its place: the bundles of each are in a folder of its name below ``output``."""
    gate: GateLevel | None = None
    packages: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the target with their values, as ``--set`` has them."""
    pooling: PoolingMode | None = None
    normalize: bool | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    treat_as_embedding: bool = False
    route: str | None = None

    @property
    def reading(self) -> Reading:
        return Reading(
            pooling=self.pooling,
            normalize=self.normalize,
            prompts=self.prompts,
            treat_as_embedding=self.treat_as_embedding,
            route=self.route,
        )

    def each(self) -> Iterator["Wanted"]:
        """One for each model and recipe."""
        for model in self.models or (self.model,):
            if not self.recipes:
                yield replace(self, model=model, models=())
            for recipe in self.recipes:
                yield replace(self, model=model, models=(), recipe=recipe, output=f"{self.output}/{recipe}")


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project file, read."""

    file: Path
    bundles: tuple[Wanted, ...]
    store: str | None = None
    """Address of the store that is shared with other machines."""
    devices: Mapping[str, str] = field(default_factory=dict)
    """Name → address of each device that ``edgepack build --on`` proves bundles on."""


@dataclass(frozen=True, kw_only=True)
class _File:
    bundle: tuple[Wanted, ...] = ()
    store: str | None = None
    devices: Mapping[str, str] = field(default_factory=dict)
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
            table = check_value(Mapping[str, Any], table.get(name, {}), name)
        read = read_table(_File, table)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {reason_of(error)}", hint="name a project file") from error
    except Malformed as error:
        raise UsageError(f"{file}: {error}", hint=error.hint or "see docs/project.md for all keys") from error
    folder = file.absolute().parent
    try:
        bundles = tuple(_anchored(each, folder, file) for each in read.bundle)
        store = read.store and (
            read.store if "://" in read.store else str(folder / Path(read.store).expanduser())
        )
    except (OSError, ValueError, RuntimeError) as error:  # no such user, too long a name, no pattern
        raise UsageError(
            f"{file} names a path that cannot be one: {error}", hint="paths are relative to the file"
        ) from error
    return Project(file=file, bundles=bundles, store=store, devices=read.devices)


def _anchored(wanted: Wanted, folder: Path, file: Path) -> Wanted:
    """With paths that are relative to the project file made absolute. Raises ``UsageError`` for what says two things."""
    for one, several in (("model", "models"), ("recipe", "recipes")):
        if getattr(wanted, one) is not None and getattr(wanted, several):
            raise UsageError(
                f"{file}: a [[bundle]] has both {one} and {several}", hint=f"give {several} all of them"
            )
    model = None if wanted.model is None else _place(wanted.model, folder)
    models = tuple(place for name in wanted.models for place in _places(name, folder, file))
    targets = tuple(str(folder / name) if name.endswith(".toml") else name for name in wanted.targets)
    return replace(wanted, model=model, models=models, targets=targets, output=str(folder / wanted.output))


def _place(model: str, folder: Path) -> str:
    if model.startswith((".", "/", "~")) or (folder / model).exists():
        return str(folder / Path(model).expanduser())
    return model


def _places(model: str, folder: Path, file: Path) -> list[str]:
    """Those that a pattern names, by name."""
    if "*" not in model or ":" in model:
        return [_place(model, folder)]
    place = folder / Path(model).expanduser()
    found = sorted(str(path) for path in Path(place.anchor).glob(str(place.relative_to(place.anchor))))
    if not found:
        raise UsageError(
            f"{file}: there is nothing at models = {model!r}", hint="it is relative to the project file"
        )
    return found
