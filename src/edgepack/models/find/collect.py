"""Which files of a model are brought together, wherever they come from: an unpacked archive, the hub, an address."""

from collections.abc import Callable, Iterable
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import ModelError
from edgepack.models.convert.route import is_routed
from edgepack.models.find.decide import ModelRequest, decide
from edgepack.models.graph.onnx_file import external_locations
from edgepack.models.read import hub_layout
from edgepack.models.read.model_folder import ModelFolder
from edgepack.models.read.safetensors import shard_names
from edgepack.models.read.static import static_folder


def collect(
    names: Iterable[str],
    get: Callable[[str], None],
    folder: Path,
    asked: ModelRequest,
    *,
    context: BuildContext,
) -> None:
    """Fill ``folder`` with one model: ``get(name)`` puts a file of ``names`` there.

    The small files come first, so that a model which cannot be used is refused before its weights are fetched. Raises ``ModelError`` or ``UnsupportedModelError``.
    """
    there, model = set(names), asked.name
    if not asked.graph:
        hub_layout.require_model(there, model)
    for name in hub_layout.descriptions(there):
        get(name)
    read = ModelFolder(directory=folder)
    if not asked.graph and is_routed(read):
        for name in hub_layout.all_plain(there):
            get(name)
        return
    decision = decide(read, asked)
    if decision.kind == "static":
        place = static_folder(read, there, model)
        for name in {f"{place}tokenizer.json", f"{place}model.safetensors"} - set(
            hub_layout.descriptions(there)
        ):
            get(name)
        return
    chosen = hub_layout.weights_of(there, read.config, model, graph=asked.graph, place=model, context=context)
    get(chosen)
    if chosen.endswith(".onnx"):
        parent = chosen.rpartition("/")[0]
        for location in external_locations(folder / chosen):
            get(f"{parent}/{location}" if parent else location)
    if chosen in (hub_layout.SHARD_INDEX, hub_layout.PICKLED_INDEX):
        for name in shard_names(folder / chosen):
            if name not in there:
                raise ModelError(
                    f"{model} has no {name}, which its {chosen} names", hint="get the model whole"
                )
            get(name)


def collect_from_tree(tree: Path, folder: Path, asked: ModelRequest, *, context: BuildContext) -> None:
    """Move the one model that is somewhere below ``tree`` into ``folder``."""
    root, model = find_model(tree, asked.name), asked.name

    def get(name: str) -> None:
        source = root / name
        if not source.is_file():
            raise ModelError(f"{model} has no {name}", hint="get the model whole, or take another")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        source.replace(folder / name)

    collect(ModelFolder(directory=root).names, get, folder, asked, context=context)


def find_model(tree: Path, model: str) -> Path:
    """The folder that holds a model: the uppermost with a tokenizer.json, else with a config.json and weights."""
    graphs = [path.relative_to(tree).as_posix() for path in sorted(tree.rglob("*.onnx"))]
    folders = {path.parent for path in tree.rglob("tokenizer.json")}
    if not folders:
        folders = {path.parent for path in tree.rglob("config.json") if _has_weights(path.parent)}
    if not folders and graphs:
        raise ModelError(
            f"{model} holds {graphs[0]}, and no tokenizer.json with it",
            hint="unpack it, put the tokenizer.json of the model beside that file, and name it: --model FOLDER/FILE.onnx",
        )
    if not folders:
        raise ModelError(
            f"{model} holds no model",
            hint="it must contain a folder with config.json, tokenizer.json and model.safetensors",
        )
    depth = min(len(path.parts) for path in folders)
    uppermost = sorted(path for path in folders if len(path.parts) == depth)
    if len(uppermost) > 1:
        listed = ", ".join(path.relative_to(tree).as_posix() for path in uppermost)
        raise ModelError(
            f"{model} holds several models: {listed}", hint="unpack it and name one: --model FOLDER"
        )
    return uppermost[0]


def _has_weights(folder: Path) -> bool:
    return any(path.suffix in (".safetensors", ".onnx", ".bin") for path in folder.iterdir())
