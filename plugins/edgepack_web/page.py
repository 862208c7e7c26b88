"""The folder that a host serves: assets named by their content, the files that name them, compressed copies."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgepack import api
from edgepack.api import BuildContext, Placement, PreparedModel, RuntimeArtifact, TargetError
from edgepack.api.kit import usage_of
from edgepack_web.encoded import BROTLI, GZIP, write_encoded
from edgepack_web.hosts import has_threads, write_host_files
from edgepack_web.npm.modules import ON_ENGINE, joined
from edgepack_web.webgpu import VERSION as WEBGPU_VERSION
from edgepack_web.webgpu import OnGpu

SCHEMA = 1
PIECE = 4_000_000
"""Bytes of the model a file: what a lost connection costs at most, and what caches and hosts take gladly."""
JS = Path(__file__).with_name("js")
STABLE = ("index.html", "embed.mjs", "embed.d.mts", "demo.mjs", "demo.css", "service-worker.js")
SHELL = ("index.html", "demo.css", "demo.mjs", "embed.mjs", "bundle.json")
"""What a page asks for by names that never change, and so asks for again at every visit."""
KEPT = ("./", *(name for name in SHELL if name not in ("index.html", "bundle.json")))
"""What the service worker keeps."""
SERVICE_WORKER = "service-worker.js"
ENGINE = "engine"
"""Edgepack's own, as the target's option ``runtime`` and bundle.json call it."""
WEBGPU = "webgpu"
"""The part of the bundle that only visitors fetch who compute on their GPU."""


@dataclass(kw_only=True)
class Folder:
    """The runner's folder while it is filled."""

    root: Path
    cap: int
    parts: dict[str, str] = field(default_factory=dict)

    def asset(self, name: str, content: bytes, part: str) -> dict[str, Any]:
        """A file named by its content, as bundle.json lists it. Raises ``TargetError`` for one that hosts refuse."""
        stem, _, suffix = name.partition(".")
        digest = hashlib.sha256(content)
        path = f"assets/{stem}.{digest.hexdigest()[:16]}.{suffix}"
        if len(content) > self.cap:
            raise TargetError(
                f"{path} has {len(content) / 2**20:.1f} MiB, hosts of this target accept {self.cap / 2**20:.1f} MiB per file",
                hint='a smaller runtime (--set runtime=reduced), or --set asset_cap="30 MiB" if the host accepts more',
            )
        place = self.root / path
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(content)
        self.parts[path] = part
        integrity = "sha256-" + base64.b64encode(digest.digest()).decode()
        return {"path": path, "size": len(content), "integrity": integrity}


@dataclass(frozen=True, kw_only=True)
class OwnEngine:
    """Files of edgepack's engine: for every browser, and for those with relaxed SIMD."""

    module: Path
    relaxed: Path


def write_page(
    folder: Folder,
    *,
    model: PreparedModel,
    runtimes: Sequence[tuple[str, RuntimeArtifact]],
    engine: OwnEngine | None = None,
    tables: api.TokenizerTables,
    library: Path | None,
    gpu: OnGpu | None = None,
    copies: bool = True,
    context: BuildContext,
) -> Placement:
    """Fill the folder; where everything lies in it. ``library`` is @huggingface/tokenizers, for what is no WordPiece.

    ``engine`` is edgepack's own, in the place of the runtimes. ``gpu`` is what a page takes that asks for it, the last of the runtimes;
    without ``copies`` nothing lies beside it compressed.
    """
    pieces = [
        folder.asset(f"model-{index + 1}.bin", content, "model")
        for index, content in enumerate(_pieces(model.file))
    ]
    engines = [_engine(folder, name, runtime) for name, runtime in runtimes]
    if engine:
        engines = [_own_engine(folder, engine)]
    tokenizer = _tokenizer(folder, tables, library)
    worker = folder.asset(
        "worker.mjs", joined(JS / "worker.mjs", ON_ENGINE if engine else None).encode(), "runner"
    )
    _copy_stable(folder, model)
    graphics = _graphics(folder, gpu) if gpu else []
    shared = [worker, *(tokenizer[key] for key in ("table", "code") if key in tokenizer)]
    first = [*pieces, *_code_of(engines[0]), *shared]
    assets = sorted(folder.parts)
    encoded = write_encoded(folder.root, assets, context=context) if copies else []
    _note_sizes(
        [
            *pieces,
            *tokenizer.values(),
            worker,
            *(
                each[key]
                for each in [*engines, *graphics]
                for key in ("glue", "wasm", "relaxed")
                if key in each
            ),
            *(piece for each in graphics for piece in each["model"]["parts"]),
        ],
        folder.root,
    )
    for each in graphics:
        each["downloads"] = _downloads([*each["model"]["parts"], *_code_of(each), *shared])
    bundle = {
        "schema": SCHEMA,
        "name": model.source.name.rpartition("/")[2],
        "model": _model_section(model, tables, pieces),
        "tokenizer": tokenizer,
        "runtimes": [*engines, *graphics],
        "worker": worker,
        "assets": assets,
        "downloads": _downloads(first),
    }
    (folder.root / "bundle.json").write_text(_compact(bundle), encoding="utf-8", newline="\n")
    _write_service_worker(folder.root, assets)
    stable = [*STABLE, "bundle.json"]
    encoded += write_encoded(folder.root, stable, context=context) if copies else []
    write_host_files(folder.root, threads=has_threads(engines))
    folder.parts |= dict.fromkeys(encoded, "encoded")
    return Placement(
        model=tuple(piece["path"] for piece in pieces),
        tokenizer=tokenizer["table"]["path"],
        runtime=engines[0]["wasm"]["path"],
        cold=tuple(sorted([*SHELL, SERVICE_WORKER, *(asset["path"] for asset in first)])),
        warm=tuple(sorted(SHELL)),
    )


def _pieces(file: Path) -> list[bytes]:
    content = file.read_bytes()
    return [content[start : start + PIECE] for start in range(0, len(content), PIECE)]


def _engine(folder: Folder, name: str, runtime: RuntimeArtifact) -> dict[str, Any]:
    glue = runtime.companions[0].read_text(encoding="utf-8")
    return {
        "name": name,
        "version": runtime.version,
        "threads": "pthread" in glue,
        "glue": folder.asset(f"ort-{name}.mjs", glue.encode(), "runtime"),
        "wasm": folder.asset(f"ort-{name}.wasm", runtime.file.read_bytes(), "runtime"),
    }


def _own_engine(folder: Folder, engine: OwnEngine) -> dict[str, Any]:
    """It is called as it is: no JavaScript is made for it. A page fetches one of its forms."""
    wasm, relaxed = (
        folder.asset(file.name, file.read_bytes(), "runtime") for file in (engine.module, engine.relaxed)
    )
    return {"name": ENGINE, "threads": False, "wasm": wasm, "relaxed": relaxed}


def _code_of(engine: Mapping[str, Any]) -> list[Any]:
    """Files that a visitor fetches who computes with an engine."""
    wasm = "relaxed" if "relaxed" in engine else "wasm"
    return [engine[key] for key in ("glue", wasm) if key in engine]


def _graphics(folder: Folder, gpu: OnGpu) -> list[dict[str, Any]]:
    pieces = [
        folder.asset(f"model-webgpu-{index + 1}.bin", content, WEBGPU)
        for index, content in enumerate(_pieces(gpu.model))
    ]
    engine = {
        "name": "webgpu",
        "gpu": True,
        "version": WEBGPU_VERSION,
        "threads": False,
        "glue": folder.asset("ort-webgpu.mjs", gpu.glue.read_bytes(), WEBGPU),
        "wasm": folder.asset("ort-webgpu.wasm", gpu.wasm.read_bytes(), WEBGPU),
        # In the place of what the other runtimes take.
        "model": {"parts": pieces, "batchDependent": False},
        "golden": folder.asset("golden-webgpu.json", gpu.golden.read_bytes(), WEBGPU),
    }
    return [engine]


def _tokenizer(folder: Folder, tables: api.TokenizerTables, library: Path | None) -> dict[str, Any]:
    if library is None:
        table = tables.wordpiece or tables.unigram
        assert table is not None, "a tokenizer without a table comes with the library"
        kind = "wordpiece" if tables.wordpiece else "unigram"
        return {"kind": kind, "table": folder.asset("tokenizer.table", table, "tokenizer")}
    document = {
        "tokenizer": json.loads(tables.document),
        "template": list(tables.template),
        "pad": tables.pad_id,
        "boundary": tables.boundary,
    }
    code = (library / "dist/tokenizers.min.mjs").read_bytes()
    return {
        "kind": "huggingface",
        "table": folder.asset("tokenizer.json", _compact(document).encode(), "tokenizer"),
        "code": folder.asset("tokenizers.mjs", code, "tokenizer"),
    }


def _model_section(
    model: PreparedModel, tables: api.TokenizerTables, pieces: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    source = model.source
    prefixes, matryoshka = usage_of(source)
    return {
        "parts": list(pieces),
        "dimension": source.dimension,
        "maxLength": source.max_length,
        "vocabulary": max(tables.size, int(source.config.get("vocab_size") or 0)),
        "batchDependent": model.batch_dependent,
        "prefixes": prefixes,
        "matryoshka": matryoshka,
    }


def _copy_stable(folder: Folder, model: PreparedModel) -> None:
    for name in STABLE:
        if name == "index.html":
            page = (JS / name).read_text(encoding="utf-8")
            title = model.source.name.rpartition("/")[2]
            (folder.root / name).write_text(page.replace("{{model}}", _escaped(title)), encoding="utf-8")
        elif name == "embed.mjs":
            (folder.root / name).write_text(joined(JS / name), encoding="utf-8", newline="\n")
        else:
            shutil.copyfile(JS / name, folder.root / name)


def _write_service_worker(root: Path, assets: Sequence[str]) -> None:
    """The list of the page's own files, and a number that changes with any of them."""
    place = root / SERVICE_WORKER
    contents = b"".join((root / name).read_bytes() for name in SHELL)
    version = hashlib.sha256(contents).hexdigest()[:16]
    text = place.read_text(encoding="utf-8")
    place.write_text(
        text.replace("{{version}}", version).replace('"{{shell}}"', _compact(list(KEPT))), encoding="utf-8"
    )


def _note_sizes(assets: Sequence[Any], root: Path) -> None:
    """Note the sizes of the compressed copies, for loaders that ask for them by name."""
    for asset in assets:
        if isinstance(asset, dict):
            for key, suffix in (("brotli", BROTLI), ("gzip", GZIP)):
                copy = root / (asset["path"] + suffix)
                if copy.exists():
                    asset[key] = copy.stat().st_size


def _downloads(assets: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {
        key: sum(int(asset.get(key, asset["size"])) for asset in assets) for key in ("size", "gzip", "brotli")
    }


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _escaped(text: str) -> str:
    return re.sub(r"[<>&\"{}]", "", text)
