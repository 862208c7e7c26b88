"""Models at an https address: an archive, an .onnx file, or a folder in the Hugging Face layout."""

import json
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote, urldefrag, urlsplit, urlunsplit

from edgepack.context import BuildContext
from edgepack.errors import DownloadError, ModelError, UsageError
from edgepack.fetch import http
from edgepack.fetch.download import download, fetch_file, file_name, require_online
from edgepack.files.archives import SUFFIXES
from edgepack.files.store import written_beside
from edgepack.models.find.collect import collect, collect_from_tree
from edgepack.models.find.folder import read_folder
from edgepack.models.find.hub import DEFAULT_ENDPOINT, endpoint, ingest_hub
from edgepack.models.find.unpack import unpack_model
from edgepack.models.read import hub_layout
from edgepack.records.model import ModelSource
from edgepack.records.target import Reading

MODULE_FILES = (
    "1_Pooling/config.json",
    *(
        f"{folder}/{name}"
        for folder in ("2_Dense", "3_Dense")
        for name in ("config.json", hub_layout.SAFETENSORS)
    ),
)
FOLDER_NAMES = (
    *hub_layout.DESCRIPTIONS,
    *MODULE_FILES,
    hub_layout.SAFETENSORS,
    hub_layout.SHARD_INDEX,
    "model.onnx",
    "onnx/model.onnx",
    "pytorch_model.bin",
    "vocab.txt",
)
"""What is looked for at the address of a folder, since a server need not list it."""


def is_address(model: str) -> bool:
    """Whether this is an address rather than a path or a name."""
    return re.match(r"[a-z][a-z0-9+.-]*://", model, re.IGNORECASE) is not None


def ingest_address(address: str, *, reading: Reading, context: BuildContext) -> ModelSource:
    """The model at an address, fetched once and kept in the store for as long as the server says it is the same.

    ``#sha256=HEX`` behind the address of an archive pins its content. Raises ``UsageError`` for plain http,
    ``ModelError``, ``UnsupportedModelError``, ``DownloadError`` or ``HashMismatchError``.
    """
    url, fragment = urldefrag(address)
    http.require_safe(url)
    if (form := of_the_hub(url)) is not None:
        return ingest_hub(form, reading=reading, context=context)
    path = urlsplit(url).path.lower()
    if path.endswith(SUFFIXES):
        return _ingest_archive(url, _pin(fragment), reading, context)
    if fragment:
        raise UsageError(f"#{fragment} can only stand behind the address of an archive", hint="leave it out")
    if path.endswith(".onnx"):
        return _ingest_onnx(url, reading, context)
    base = _join(url, "")
    return _ingest_files(base, _seen(base, FOLDER_NAMES, context), file_name(base), reading, context)


def of_the_hub(url: str) -> str | None:
    """``hf:…`` for the address of a model's page on the hub."""
    for base in (endpoint(), DEFAULT_ENDPOINT):
        rest = url.removeprefix(base)
        page = re.fullmatch(r"/([\w.-]+/[\w.-]+)(?:/tree/([\w.-]+))?/?", rest)
        if rest != url and page is not None:
            return f"hf:{page.group(1)}@{page.group(2) or 'main'}"
    return None


def _pin(fragment: str) -> str | None:
    """The digest in ``sha256=HEX``."""
    if not fragment:
        return None
    given = re.fullmatch(r"sha256=([0-9a-fA-F]{64})", fragment)
    if given is None:
        raise UsageError(f"#{fragment} is not a digest", hint="write #sha256= and 64 hexadecimal digits")
    return given.group(1).lower()


def _ingest_archive(url: str, sha256: str | None, reading: Reading, context: BuildContext) -> ModelSource:
    name = file_name(url)
    seen = {"sha256": sha256} if sha256 else _seen(url, ("",), context)

    def make(folder: Path) -> None:
        require_online(context, http.redacted(url))
        with tempfile.TemporaryDirectory(prefix=".archive-", dir=folder) as temporary:
            if sha256:
                archive = fetch_file(url, sha256=sha256, context=context)
            else:
                archive = download(url, Path(temporary, name), progress=context.progress)
            unpack_model(archive, Path(temporary, "content"))
            archive.unlink()
            collect_from_tree(Path(temporary, "content"), folder, model=name, reading=reading)

    directory = context.store.cached("models", {"address": url, **seen}, make)
    origin = http.redacted(url) + (f"#sha256={sha256}" if sha256 else "")
    context.note(origin)
    return read_folder(directory, name=_stem(name), origin=origin, reading=reading, note=context.note)


def _stem(name: str) -> str:
    suffix = next((suffix for suffix in SUFFIXES if name.lower().endswith(suffix)), "")
    return name[: len(name) - len(suffix)] or name


def _ingest_onnx(url: str, reading: Reading, context: BuildContext) -> ModelSource:
    """A graph and what is beside it; the tokenizer may also lie one folder higher, as on the hub."""
    name = file_name(url)
    parent = _join(url, "..")
    seen = _seen(parent, (*hub_layout.DESCRIPTIONS, *MODULE_FILES, name), context)
    if "tokenizer.json" not in seen and urlsplit(parent).path.endswith("/onnx"):
        name = f"onnx/{name}"
        parent = _join(parent, "..")
        seen = _seen(parent, (*hub_layout.DESCRIPTIONS, *MODULE_FILES, name), context)
    if name not in seen:
        raise DownloadError(f"there is no file at {http.redacted(url)}", hint="check the address")
    stem = name.rpartition("/")[2].removesuffix(".onnx")
    return _ingest_files(
        parent, seen, file_name(parent) if stem == "model" else stem, reading, context, onnx=name
    )


def _ingest_files(
    base: str,
    seen: Mapping[str, str],
    name: str,
    reading: Reading,
    context: BuildContext,
    *,
    onnx: str | None = None,
) -> ModelSource:
    """A model whose files lie below an address, each by its own."""

    def make(folder: Path) -> None:
        require_online(context, http.redacted(base))

        def get(file: str) -> None:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            download(_join(base, file), folder / file, progress=context.progress)

        if not seen:
            raise ModelError(
                f"there is no model at {http.redacted(base)}",
                hint=f"it must be an archive ({', '.join(SUFFIXES)}), an .onnx file or a folder with a config.json",
            )
        collect(seen, get, folder, model=http.redacted(base), reading=reading, onnx=onnx)

    directory = context.store.cached("models", {"address": base, "onnx": onnx or "", **seen}, make)
    graph = directory / onnx if onnx else None
    context.note(http.redacted(base))
    return read_folder(
        directory, name=name, origin=http.redacted(base), onnx=graph, reading=reading, note=context.note
    )


def _join(base: str, name: str) -> str:
    """The address of what lies below another (``..``: of the folder that it lies in); a query stays."""
    parts = urlsplit(base)
    folder = parts.path.rstrip("/")
    path = folder.rpartition("/")[0] if name == ".." else f"{folder}/{quote(name)}" if name else folder
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _seen(base: str, names: Iterable[str], context: BuildContext) -> dict[str, str]:
    """Which of the files are there, each with what changes when it changes.

    Remembered, for when the server cannot be asked.
    """
    wanted = {_join(base, name): name for name in names}
    folder = context.store.folder("addresses", {"base": base, "names": " ".join(wanted.values())})
    remembered = folder / "seen.json"
    if context.offline and remembered.is_file():
        return _read_seen(remembered)
    require_online(context, http.redacted(base))
    try:
        found = http.probe(wanted)
    except DownloadError as error:
        if not (http.is_passing(error) and remembered.is_file()):
            raise
        context.note("the server cannot be reached: what was fetched last is taken")
        return _read_seen(remembered)
    seen = {wanted[url]: file.validator for url, file in found.items()}
    with written_beside(remembered) as temporary:
        temporary.write_text(json.dumps(seen))
    return seen


def _read_seen(path: Path) -> dict[str, str]:
    return {str(name): str(validator) for name, validator in json.loads(path.read_text()).items()}
