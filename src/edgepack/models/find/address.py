"""Models at an https address: an archive, an .onnx file, or a folder in the Hugging Face layout."""

import json
import re
import secrets
import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urldefrag, urlsplit, urlunsplit

from edgepack.context import BuildContext
from edgepack.errors import DownloadError, ModelError, UnsupportedModelError, UsageError
from edgepack.fetch import http
from edgepack.fetch.download import download, fetch_file, file_name, require_online
from edgepack.files.archives import SUFFIXES
from edgepack.files.store import written_beside
from edgepack.models.find.hub import DEFAULT_ENDPOINT, Hub, endpoint
from edgepack.models.graph.onnx_file import external_locations
from edgepack.models.read import hub_layout
from edgepack.models.read.documents import most_of
from edgepack.models.read.model_folder import CONFIG, LENGTH_FILES, MODULES, ModelFolder
from edgepack.models.read.safetensors import shard_names
from edgepack.models.read.static import is_static
from edgepack.records.model import RemoteModel

GRAPHS = ("model.onnx", "onnx/model.onnx")
ADAPTERS = (hub_layout.ADAPTER, *sorted(hub_layout.ADAPTER_WEIGHTS))
DESCRIPTIONS = (
    *hub_layout.DESCRIPTIONS,
    *hub_layout.OLDER_TOKENIZERS,
    *hub_layout.OLDER_SETTINGS,
    *LENGTH_FILES[1:],
)
FOLDER_NAMES = (*DESCRIPTIONS, *ADAPTERS, *hub_layout.WEIGHTS, *GRAPHS)
"""What is looked for at the address of a folder, since a server need not list it; then what these name."""
IN_MODULES = ("config.json", hub_layout.SAFETENSORS, hub_layout.PICKLED, "tokenizer.json")


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """The source of ``https://`` addresses (``edgepack.api.axes.Source``)."""

    def find(self, address: str, *, context: BuildContext) -> RemoteModel:
        """The model at an address, the same for as long as the server says so.

        ``#sha256=HEX`` behind the address of an archive pins its content. Raises ``UsageError`` for plain http,
        ``ModelError`` or ``DownloadError``.
        """
        url, fragment = _parted(address)
        http.require_safe(url)
        if (form := of_the_hub(url)) is not None:
            return Hub().find(form, context=context)
        path = urlsplit(url).path.lower()
        if path.endswith(SUFFIXES):
            return _archive(url, _pin(fragment), context)
        if fragment:
            raise UsageError(f"#{fragment} is only valid in the URL of an archive", hint="leave it out")
        if path.endswith(".onnx"):
            return _graph(url, context)
        base = _join(url, "")
        seen = _all_seen(base, FOLDER_NAMES, context)
        seen |= _data_seen(base, _computed_by(base, seen, context), seen, context)
        return _folder(base, seen, file_name(base), context)


def of_the_hub(url: str) -> str | None:
    """``hf:…`` for the address of a model's page on the hub."""
    for base in (endpoint(), DEFAULT_ENDPOINT):
        rest = url.removeprefix(base)
        page = re.fullmatch(r"/([\w.-]+/[\w.-]+)(?:/tree/([\w.-]+))?/?", rest)
        if rest != url and page is not None:
            return f"hf:{page.group(1)}@{page.group(2) or 'main'}"
    return None


def _parted(address: str) -> tuple[str, str]:
    """The address, and what stands behind its #. Raises ``UsageError`` for what is no address at all."""
    try:
        url, fragment = urldefrag(address)
        urlsplit(url).port  # noqa: B018 - which is read when it is asked for
    except ValueError as error:  # which may hold a part of a password
        raise UsageError(
            "that is no address: its host or port is malformed",
            hint="e.g. https://example.com/my-model.tar.gz",
        ) from error
    return url, fragment


def _pin(fragment: str) -> str | None:
    """The digest in ``sha256=HEX``."""
    if not fragment:
        return None
    given = re.fullmatch(r"sha256=([0-9a-fA-F]{64})", fragment)
    if given is None:
        raise UsageError(f"#{fragment} is not a digest", hint="write #sha256= and 64 hexadecimal digits")
    return given.group(1).lower()


def _archive(url: str, sha256: str | None, context: BuildContext) -> RemoteModel:
    name = file_name(url)
    seen = {"sha256": sha256} if sha256 else _seen(url, ("",), context, there=True)

    def fetch(_: str, destination: Path) -> None:
        if sha256:
            fetch_file(url, sha256=sha256, context=context).replace(destination)
        else:
            _fetch(url, "", seen, destination, context)

    return RemoteModel(
        name=_stem(name),
        origin=http.redacted(url) + (f"#sha256={sha256}" if sha256 else ""),
        pins={"address": url, **seen},
        files=(name,),
        fetch=fetch,
    )


def _stem(name: str) -> str:
    suffix = next((suffix for suffix in SUFFIXES if name.lower().endswith(suffix)), "")
    return name[: len(name) - len(suffix)] or name


def _graph(url: str, context: BuildContext) -> RemoteModel:
    """A graph and what is beside it; the tokenizer may also lie one folder higher, as on the hub."""
    name = file_name(url)
    parent = _join(url, "..")
    seen = _all_seen(parent, (*DESCRIPTIONS, name), context)
    if not hub_layout.has_tokenizer(seen) and urlsplit(parent).path.endswith("/onnx"):
        name = f"onnx/{name}"
        parent = _join(parent, "..")
        seen = _all_seen(parent, (*DESCRIPTIONS, name), context)
    if name not in seen:
        raise DownloadError(f"no file found at {http.redacted(url)}", hint="check the address")
    seen |= _data_seen(parent, name, seen, context)
    stem = name.rpartition("/")[2].removesuffix(".onnx")
    return _folder(parent, seen, file_name(parent) if stem == "model" else stem, context, graph=name)


def _folder(
    base: str, seen: Mapping[str, str], name: str, context: BuildContext, *, graph: str = ""
) -> RemoteModel:
    """A model whose files lie below an address, each by its own."""
    if not seen:
        raise ModelError(
            f"no model found at {http.redacted(base)}",
            hint=f"it must be an archive ({', '.join(SUFFIXES)}), an .onnx file or a folder with a config.json",
        )

    def fetch(file: str, destination: Path) -> None:
        if file.endswith(".onnx"):
            shutil.copyfile(_read(base, file, seen[file], context), destination)
            _require_as_seen(base, file, seen, destination)
        else:
            _fetch(base, file, seen, destination, context)

    return RemoteModel(
        name=name,
        origin=http.redacted(base),
        pins={"address": base, "onnx": graph, **seen},
        files=tuple(seen),
        fetch=fetch,
        graph=graph,
    )


def _join(base: str, name: str) -> str:
    """The address of what lies below another (``..``: of the folder that it lies in); a query stays."""
    parts = urlsplit(base)
    folder = parts.path.rstrip("/")
    path = folder.rpartition("/")[0] if name == ".." else f"{folder}/{quote(name)}" if name else folder
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _all_seen(base: str, names: Iterable[str], context: BuildContext) -> dict[str, str]:
    """Files as of ``_seen``, with the files that modules.json and an index of shards name."""
    seen = _seen(base, names, context)
    indexes = [name for name in (hub_layout.SHARD_INDEX, hub_layout.PICKLED_INDEX) if name in seen]
    texts = {name: _read(base, name, seen[name], context) for name in (MODULES, *indexes) if name in seen}
    modules = ModelFolder(directory=texts[MODULES].parent).modules if MODULES in texts else None
    folders = [each.folder for each in modules or ()]
    named = {f"{folder}/{name}" for folder in folders if re.fullmatch(r"\w+", folder) for name in IN_MODULES}
    named |= {shard for index in indexes for shard in shard_names(texts[index])}
    _require_few(named, texts, base)
    return seen | (_seen(base, sorted(named), context) if named else {})


def _require_few(named: Collection[str], by: Iterable[str], base: str) -> None:
    if len(named) > hub_layout.MOST_FILES:
        raise ModelError(
            f"{' and '.join(sorted(by))} at {http.redacted(base)} name {len(named):,} files; a model has {hub_layout.MOST_FILES:,} at most",
            hint="check the address",
        )


def _computed_by(base: str, seen: Mapping[str, str], context: BuildContext) -> str:
    """The graph that computes a folder's model; empty where its tensors do, or where it is refused when it is read whole."""
    if CONFIG not in seen or not any(name in seen for name in GRAPHS):
        return ""
    read = ModelFolder(directory=_read(base, CONFIG, seen[CONFIG], context).parent)
    try:
        chosen = (
            "" if is_static(read) else hub_layout.choose_weights(seen, read.config, base, context=context)
        )
    except (ModelError, UnsupportedModelError):
        return ""
    return chosen if chosen in GRAPHS else ""


def _data_seen(base: str, graph: str, seen: Mapping[str, str], context: BuildContext) -> dict[str, str]:
    """The files with a graph's tensors, as of ``_seen``: trained further, a model has the same graph."""
    if not graph:
        return {}
    parent = graph.rpartition("/")[0]
    locations = external_locations(_read(base, graph, seen[graph], context))
    named = [f"{parent}/{each}" if parent else each for each in locations]
    _require_few(named, [graph], base)
    return _seen(base, named, context, there=True) if named else {}


def _fetch(base: str, name: str, seen: Mapping[str, str], destination: Path, context: BuildContext) -> None:
    """One file. Raises ``DownloadError`` where it is another than was seen, which does not fit the files beside it."""
    download(_join(base, name), destination, most=most_of(name), progress=context.progress)
    _require_as_seen(base, name, seen, destination)


def _require_as_seen(base: str, name: str, seen: Mapping[str, str], destination: Path) -> None:
    """Asked anew: a file may change while it is sent."""
    url = _join(base, name)
    said = http.probe([url], there=True).get(url)
    if said is None or said.validator not in ("", seen.get(name)):
        raise DownloadError(
            f"{http.redacted(url)} was changed while the model was fetched",
            hint="try again when all of its files are of one version",
        )
    size = destination.stat().st_size
    if said.size not in (None, 0, size):  # one of HTTP/1.0 ends where the connection does
        raise DownloadError(
            f"{http.redacted(url)} has {said.size} bytes, and {size} came",
            hint="try again; the connection may have broken",
        )


def _read(base: str, name: str, validator: str, context: BuildContext) -> Path:
    """One of the files that name others, kept for as long as it is the same."""

    def make(folder: Path) -> None:
        _fetch(base, name, {name: validator}, folder / last, context)

    last = name.rpartition("/")[2]
    inputs = {"url": _join(base, name), "validator": validator}
    return context.store.cached("addresses", inputs, make) / last


def _seen(base: str, names: Iterable[str], context: BuildContext, *, there: bool = False) -> dict[str, str]:
    """Which of the files are there, or may be expected to be, each with what changes when it changes.

    Remembered, for when the server cannot be asked.
    """
    wanted = {_join(base, name): name for name in names}
    folder = context.store.folder("addresses", {"base": base, "names": " ".join(wanted.values())})
    remembered = folder / "seen.json"
    last = _read_seen(remembered)
    if context.offline and last is not None:
        return last
    require_online(context, http.redacted(base))
    try:
        found = http.probe(wanted, there=there)
    except DownloadError as error:
        if not http.is_passing(error) or last is None:
            raise
        context.note("the server cannot be reached; using the last download")
        return last
    # What does not say whether it has changed is another one each time.
    seen = {wanted[url]: file.validator or secrets.token_hex(16) for url, file in found.items()}
    with written_beside(remembered) as temporary:
        temporary.write_text(json.dumps(seen))
    return seen


def _read_seen(path: Path) -> dict[str, str] | None:
    """Validators seen last; ``None`` where they are not known, or damaged."""
    try:
        return {str(name): str(validator) for name, validator in json.loads(path.read_text()).items()}
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
