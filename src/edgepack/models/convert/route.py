"""Models with routes (sentence-transformers' Router, Asym before 5.0), of which one becomes a folder like any other."""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path, PurePosixPath

from edgepack.context import BuildContext
from edgepack.errors import ModelError, UnsupportedModelError, UsageError
from edgepack.files.store import digest_of_code
from edgepack.models.read.documents import LEGAL, is_hidden, require_own
from edgepack.models.read.hub_layout import TENSORS
from edgepack.models.read.model_folder import MODULES, SETTINGS, ModelFolder

KINDS = ("Router", "Asym")
CONFIGS = ("router_config.json", "config.json")
"""Of the module itself, newer versions' name first."""
ABOUT = (SETTINGS, "README.md")


@dataclass(frozen=True, kw_only=True)
class Module:
    """One of modules.json, or of a route."""

    kind: str
    """Its class, with its module."""
    folder: Path


def is_routed(folder: ModelFolder) -> bool:
    """Whether modules.json sends texts one of several ways."""
    return not set(KINDS).isdisjoint(folder.kinds or ())


def routed_folder(source: ModelFolder, route: str | None, *, context: BuildContext) -> ModelFolder:
    """The folder itself; of a model with routes, one like any other of the modules on one route, kept in the store.

    Raises ``UnsupportedModelError`` where none of several is chosen, ``UsageError`` for one that there is not, ``ModelError``.
    """
    if not is_routed(source):
        if route is not None:
            raise UsageError(
                f"the model has no routes, so that --route {route} chooses nothing", hint="leave --route out"
            )
        return source
    modules = _on_route(source, route)
    files = _files(source, modules)
    described = [
        path.relative_to(source.directory).as_posix()
        for path in files.values()
        if path.suffix not in TENSORS or any(map(path.match, LEGAL))
    ]
    require_own(source.directory, map(escape, described))

    def make(folder: Path) -> None:
        for name, path in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            _link(path, folder / name)
        write_modules(folder, modules)

    inputs = {"modules": " ".join(each.kind for each in modules), "by": digest_of_code("models")}
    return ModelFolder(directory=context.store.cached("route", inputs, make, files=files))


def write_modules(folder: Path, modules: Sequence[Module]) -> None:
    """modules.json of modules in a row."""
    rows = [
        {"idx": at, "name": str(at), "path": _place(at, each), "type": each.kind}
        for at, each in enumerate(modules)
    ]
    (folder / MODULES).write_text(json.dumps(rows), encoding="utf-8")


def _place(at: int, module: Module) -> str:
    return f"{at}_{_name(module.kind)}" if at else ""


def _name(kind: str) -> str:
    return kind.rpartition(".")[2]


def _on_route(source: ModelFolder, route: str | None) -> list[Module]:
    found = []
    for module in source.modules or ():
        folder = _below(source.directory, module.folder)
        if module.kind in KINDS:
            found += _chosen(ModelFolder(directory=folder), route)
        else:
            found.append(Module(kind=module.type, folder=folder))
    return found


def _chosen(router: ModelFolder, route: str | None) -> list[Module]:
    file = next(filter(router.has, CONFIGS), None)
    if file is None:
        raise ModelError(
            f"the model has routes, and no {CONFIGS[0]} that lists them", hint="fetch the model again, whole"
        )
    said = router.table(file)
    kinds, structure = said.get("types"), said.get("structure")
    if not isinstance(kinds, dict) or not isinstance(structure, dict) or not structure:
        raise ModelError(f"{file} lists no routes", hint="fetch the model again, whole")
    routes = {str(name): tuple(map(str, ids)) for name, ids in structure.items() if isinstance(ids, list)}
    if route is None and len(set(routes.values())) == 1:
        route = next(iter(routes))
    if route is None:
        raise UnsupportedModelError(
            f"the model has the routes {' and '.join(sorted(routes))}; a bundle holds one",
            hint=f"make a bundle of each: --route {next(iter(routes))}, and so on",
        )
    if route not in routes:
        raise UsageError(f"the model has no route {route}", hint=f"it has {' and '.join(sorted(routes))}")
    if unknown := [each for each in routes[route] if each not in kinds]:
        raise ModelError(f"{file} does not say what {unknown[0]} is", hint="fetch the model again, whole")
    return [Module(kind=str(kinds[each]), folder=_below(router.directory, each)) for each in routes[route]]


def _below(directory: Path, folder: str) -> Path:
    place = PurePosixPath(folder)
    if is_hidden(place) or place.is_absolute():
        raise ModelError(
            f"{MODULES} points outside the model's folder: {folder}", hint="get the model elsewhere"
        )
    return directory / place


def _files(source: ModelFolder, modules: Sequence[Module]) -> dict[str, Path]:
    """By their names in the finished folder."""
    files = {name: source.directory / name for name in ABOUT if source.has(name)}
    for at, module in enumerate(modules):
        place = f"{_place(at, module)}/" if at else ""
        inside = module.folder.iterdir() if module.folder.is_dir() else ()
        own = {place + path.name: path for path in sorted(inside) if path.is_file()}
        files = {**own, **files}
    files.pop(MODULES, None)
    return files


def _link(source: Path, destination: Path) -> None:
    """A further name of a file, or a copy where the store lies on another disk."""
    try:
        os.link(source, destination)
    except OSError:
        shutil.copyfile(source, destination)
