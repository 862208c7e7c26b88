"""A web bundle beside stock onnxruntime-web and transformers.js, in one run, in a headless Chromium.

    .venv/bin/edgepack bundle --target web-wasm
    .venv/bin/python benchmarks/web.py dist/all-MiniLM-L6-v2-web-wasm

    .venv/bin/edgepack bundle --target web-fast
    .venv/bin/python benchmarks/web.py dist/all-MiniLM-L6-v2-web-wasm --fast dist/all-MiniLM-L6-v2-web-fast --only edgepack web-fast

Four pages, with ``--fast`` five, each served from the loopback by what `edgepack serve-web` serves with, every file under brotli 11, all that does
not change immutable: the bundle; the same loader on npm's WebAssembly; onnxruntime-web's own JavaScript with the same model
file and @huggingface/tokenizers; transformers.js with a model file made as those on the hub are (dynamic int8 of the
exported model, per channel, reduced range: no hub is asked). One thread each, so no page is isolated. Cold visits have a new profile each; a warm one
is a new page in the same browser; a later one follows a restart of the browser. Bytes are bodies as the server sent them,
headers not counted. Cosines are to the full-precision model in Python, over those of the 200 verification texts that are
not cut: transformers.js cuts later than sentence-transformers does. Visits
and speeds are taken in turns, so that whatever else the machine does meets all alike.
"""

import argparse
import hashlib
import http.server
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from edgepack.bundles.manifest import open_bundle
from edgepack.console import Story
from edgepack.models.find.source import ingest
from edgepack.models.read.tokenizer import load_tokenizer
from edgepack.models.reference import cached_reference, exported_model
from edgepack.plugins.context import HostContext, host_context
from edgepack.records.model import ModelSource
from edgepack.verifier.gate import verification_texts
from edgepack_web.encoded import write_encoded
from edgepack_web.hosts import page_headers
from edgepack_web.npm.node import find_node
from edgepack_web.npm.package import npm_package
from edgepack_web.packages import onnxruntime_web, tokenizers_library
from edgepack_web.serve import Handler

PAGES = Path(__file__).with_name("web_pages")
TRANSFORMERS = (
    "@huggingface/transformers",
    "4.3.1",
    "sha512-5+voSeUCFK6PCKlY15dPhNOKq3/zOTxDN7oC+Wy9dFb1QZ0TSQomZRRy7URRK8YRuUoE9fGMQTTPC5d/pWBJhA==",
)
TRANSFORMERS_RUNTIME = (
    "onnxruntime-web",
    "1.31.0-dev.20260914-8d85527a0",
    "sha512-Iy7rtadoBgxS/LLvDr3QW38DB1PNXRnr0GJMcL0TAt7c9qjgVQl83UlGCVyeAnK2InpmW8Uc3PL8XIuqtDeF6g==",
)
"""The version that transformers.js names in its package.json, and of it the module that it asks for."""
PAGE = '<!doctype html><html lang="en"><meta charset="utf-8"><title>{name}</title><link rel="icon" href="data:,"><script type="module" src="main.mjs"></script></html>\n'
SHORT = "How do I reset the device?"
WORDS = """
time year people way day man thing woman life child world school state family student group country
problem hand part place case week company system program question work government number night point home
water room mother area money story fact month lot right study book eye job word business issue side kind
head house service friend father power hour game line end member law car city community name president
team minute idea kid body information back parent face others level office door health person art war
history party result change morning reason research girl guy moment air teacher force education
"""
"""Common words, of one token each in BERT's vocabularies."""


@dataclass(kw_only=True)
class Peer:
    """One page and what its server has sent: (path, status, bytes) each."""

    name: str
    folder: Path
    url: str = ""
    sent: list[tuple[str, int, int]] = field(default_factory=list)


class Counting(Handler):
    """What `edgepack serve-web` serves with, and notes of what was sent."""

    def __init__(self, peer: Peer, *arguments: object) -> None:
        self.peer = peer
        self.length = self.status = 0
        super().__init__(peer.folder, page_headers(threads=False), *arguments)

    def send_header(self, keyword: str, value: str) -> None:
        if keyword == "Content-Length":
            self.length = int(value)
        super().send_header(keyword, value)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        self.status = int(code) if isinstance(code, int) else 0

    def _answer(self, *, body: bool) -> None:
        self.length = 0
        super()._answer(body=body)
        self.peer.sent.append((self.path, self.status, self.length))


class Clerk(http.server.BaseHTTPRequestHandler):
    """Tells what a peer's server has sent since it was asked last."""

    def __init__(self, peers: Sequence[Peer], *arguments: object) -> None:
        self.peers = peers
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        peer = next(peer for peer in self.peers if peer.name == self.path.lstrip("/").replace("%20", " "))
        body = json.dumps(peer.sent).encode()
        peer.sent.clear()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """No line a request."""


def main() -> None:
    options = arguments()
    bundle = open_bundle(options.bundle)
    with (
        host_context(story=Story(quiet=True), offline=False) as context,
        tempfile.TemporaryDirectory() as place,
        ExitStack() as servers,
    ):
        source = ingest(bundle.manifest["model"]["origin"], context=context)
        say("laying out the pages, compressing them (brotli 11 takes a minute the first time)")
        peers = lay_out(options, source, Path(place), context)
        for peer in peers:
            peer.url = servers.enter_context(serving(partial(Counting, peer)))
        clerk = servers.enter_context(serving(partial(Clerk, peers)))
        figures = drive(plan_of(peers, clerk, options))
        exact = cached_reference(source, verification_texts(), context=context)
        whole = [
            len(row.ids) < source.max_length
            for row in load_tokenizer(source).encode_batch(verification_texts())
        ]
    results = {name: result_of(found, exact, np.array(whole)) for name, found in figures.items()}
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    console = Console(width=options.width)
    console.print(size_table(results))
    console.print(time_table(results))
    if options.rounds:
        console.print(speed_table(results))


def arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("bundle", type=Path)
    made.add_argument("--fast", type=Path, help="a bundle of target web-fast beside it")
    made.add_argument("--only", nargs="+", metavar="PAGE", help="pages with these names")
    made.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    made.add_argument("--cold", type=int, default=3, help="cold visits of each page")
    made.add_argument("--visits", type=int, default=5, help="warm visits after each cold one")
    made.add_argument("--rounds", type=int, default=7, help="of the speed measurement; 0 leaves it out")
    made.add_argument("--seconds", type=float, default=1.0, help="of each page's turn")
    made.add_argument("--json", type=Path, help="write all figures there")
    made.add_argument("--width", type=int, default=120)
    return made.parse_args()


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def lay_out(
    options: argparse.Namespace, source: ModelSource, place: Path, context: HostContext
) -> list[Peer]:
    """A folder for each page, with compressed copies beside the files."""
    bundle, fast = options.bundle, options.fast
    pages: dict[str, Callable[[Path], Path]] = {
        "edgepack": lambda folder: own_page(bundle, folder),
        **({"web-fast": lambda folder: own_page(fast, folder)} if fast else {}),
        "stock wasm": lambda folder: stock_page(bundle, folder, context),
        "onnxruntime-web": lambda folder: ort_page(bundle, source, folder, context),
        "transformers.js": lambda folder: transformers_page(source, folder, context),
    }
    made = [
        Peer(name=name, folder=lay(place / name.replace(" ", "-")))
        for name, lay in pages.items()
        if not options.only or name in options.only
    ]
    for peer in made:
        (peer.folder / "index.html").write_text(PAGE.format(name=peer.name))
        shutil.copyfile(PAGES / "first.mjs", peer.folder / "first.mjs")
        plain = [path for path in peer.folder.rglob("*") if path.is_file() and not has_copies(path)]
        write_encoded(peer.folder, [str(path.relative_to(peer.folder)) for path in plain], context=context)
    return made


def has_copies(path: Path) -> bool:
    return path.suffix in {".br", ".gz"} or path.with_name(path.name + ".br").is_file()


def own_page(bundle: Path, folder: Path) -> Path:
    shutil.copytree(bundle, folder)
    shutil.copyfile(PAGES / "edgepack.mjs", folder / "main.mjs")
    (folder / "index.html.br").unlink()
    (folder / "index.html.gz").unlink()
    return folder


def stock_page(bundle: Path, folder: Path, context: HostContext) -> Path:
    """The same bundle with npm's WebAssembly, as ``--set runtime=stock`` has it."""
    own_page(bundle, folder)
    document = json.loads((folder / "bundle.json").read_text())
    dist = onnxruntime_web(context=context) / "dist"
    document["runtimes"] = [
        {
            "name": "stock",
            "version": "1.21.0",
            "threads": True,
            "glue": asset(folder, dist / "ort-wasm-simd-threaded.mjs"),
            "wasm": asset(folder, dist / "ort-wasm-simd-threaded.wasm"),
        }
    ]
    (folder / "bundle.json").write_text(json.dumps(document, separators=(",", ":")))
    (folder / "bundle.json.br").unlink()
    (folder / "bundle.json.gz").unlink()
    return folder


def asset(folder: Path, file: Path) -> dict[str, object]:
    content = file.read_bytes()
    (folder / "assets" / file.name).write_bytes(content)
    digest = b64encode(hashlib.sha256(content).digest()).decode()
    return {"path": f"assets/{file.name}", "size": len(content), "integrity": f"sha256-{digest}"}


def ort_page(bundle: Path, source: ModelSource, folder: Path, context: HostContext) -> Path:
    assets = folder / "assets"
    assets.mkdir(parents=True)
    document = json.loads((bundle / "bundle.json").read_text())
    parts = [(bundle / part["path"]).read_bytes() for part in document["model"]["parts"]]
    (assets / "model.ort").write_bytes(b"".join(parts))
    dist = onnxruntime_web(context=context) / "dist"
    for name in ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"):
        shutil.copyfile(dist / name, assets / name)
    shutil.copyfile(tokenizers_library(context) / "dist/tokenizers.min.mjs", assets / "tokenizers.min.mjs")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(source.directory / name, assets / name)
    shutil.copyfile(PAGES / "ort.mjs", folder / "main.mjs")
    return folder


def transformers_page(source: ModelSource, folder: Path, context: HostContext) -> Path:
    model = folder / "assets/model/onnx"
    model.mkdir(parents=True)
    shutil.copyfile(hub_like_model(source, context), model / "model_quantized.onnx")
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(source.directory / name, model.parent / name)
    library = fetched(TRANSFORMERS, ("dist/transformers.min.js",), context)
    runtime = fetched(TRANSFORMERS_RUNTIME, ("dist/ort-wasm-simd-threaded.asyncify.*",), context)
    for file in (*(library / "dist").iterdir(), *(runtime / "dist").iterdir()):
        shutil.copyfile(file, folder / "assets" / file.name)
    shutil.copyfile(PAGES / "transformers.mjs", folder / "main.mjs")
    return folder


def fetched(package: tuple[str, str, str], keep: Sequence[str], context: HostContext) -> Path:
    name, version, integrity = package
    return npm_package(name, version, integrity=integrity, keep=keep, context=context)


def hub_like_model(source: ModelSource, context: HostContext) -> Path:
    """``model_quantized.onnx`` as transformers.js's own script makes it: token vectors, no fusion, dynamic int8."""
    exported = exported_model(source, context=context)

    def make(folder: Path) -> None:
        import onnx
        from onnxruntime.quantization import QuantType, quantize_dynamic

        pooling = next(node for node in onnx.load(exported).graph.node if node.name.endswith("pool_sum_row"))
        names = ["input_ids", "attention_mask", "token_type_ids"]
        tokens = folder / "model.onnx"
        onnx.utils.extract_model(str(exported), str(tokens), names, [pooling.input[1]])
        rename_output(tokens, "last_hidden_state")
        quantize_dynamic(
            tokens,
            folder / "model_quantized.onnx",
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,
            extra_options={"EnableSubgraph": True, "MatMulConstBOnly": True},
        )
        tokens.unlink()

    digest = hashlib.sha256(exported.read_bytes()).hexdigest()
    inputs = {"of": digest, "made": "extract last_hidden_state, quantize_dynamic QInt8 per channel, reduced"}
    return context.store.cached("benchmark-model", inputs, make) / "model_quantized.onnx"


def rename_output(file: Path, name: str) -> None:
    import onnx

    model = onnx.load(file)
    old = model.graph.output[0].name
    model.graph.output[0].name = name
    for node in model.graph.node:
        for index, output in enumerate(node.output):
            if output == old:
                node.output[index] = name
    onnx.save(model, file)


@contextmanager
def serving(handler: Any) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


def plan_of(peers: Sequence[Peer], clerk: str, options: argparse.Namespace) -> dict[str, object]:
    texts = list(verification_texts())
    words = WORDS.split()
    eight = [" ".join(words[(at + 13 * row) % len(words)] for at in range(30)) for row in range(8)]
    return {
        "chromium": options.chromium,
        "clerk": int(clerk.rpartition(":")[2].rstrip("/")),
        "peers": [{"name": peer.name, "url": peer.url} for peer in peers],
        "texts": texts,
        "shapes": [
            {"name": "1 short", "texts": [SHORT]},
            {"name": "8 x 32 tokens", "texts": eight},
            {"name": "32 mixed", "texts": texts[::6][:32]},
        ],
        **{name: getattr(options, name) for name in ("cold", "visits", "rounds", "seconds")},
    }


def drive(plan: dict[str, object]) -> dict[str, Any]:
    if plan["chromium"] is None:
        raise SystemExit("no Chromium here: apt-get install chromium, or --chromium PROGRAM")
    done = subprocess.run(
        [find_node(), PAGES / "drive.mjs"],
        input=json.dumps(plan),
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
        env={**os.environ},
    )
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def kind_of(path: str) -> str:
    name = path.rpartition("/")[2]
    if name.endswith(".wasm"):
        return "wasm"
    if name.startswith("model"):
        return "model"
    if name.startswith("tokenizer") and not name.endswith(".mjs"):
        return "tokenizer"
    return "scripts" if name.endswith((".mjs", ".js")) else "page"


def result_of(found: dict[str, Any], exact: Any, whole: Any) -> dict[str, Any]:
    """Figures as they are written: bytes, milliseconds, sentences a second, cosines of the ``whole`` texts."""
    vectors = np.asarray(found["vectors"], np.float32)
    cosines = ((vectors * exact).sum(axis=1) / np.linalg.norm(vectors, axis=1))[whole]
    kinds: dict[str, int] = dict.fromkeys(("model", "wasm", "scripts", "tokenizer", "page"), 0)
    for path, _, size in found["bytes"]:
        kinds[kind_of(path)] += size
    return {
        "bytes": kinds,
        "total": sum(kinds.values()),
        "code": sum(kinds.values()) - kinds["model"],
        "requests": len(found["bytes"]),
        "warm_bytes": sum(size for _, _, size in found["warmBytes"]),
        "warm_requests": len(found["warmBytes"]),
        "cold": found["cold"],
        "warm": [visit["time"] for visit in found["warm"]],
        "steps": [visit["times"] for visit in found["warm"] if visit.get("times")],
        "restarted": found["restarted"],
        "memory": found["memory"],
        "rates": found.get("rates", {}),
        "cosine": {"mean": float(cosines.mean()), "least": float(cosines.min())},
        "sent": found["bytes"],
    }


def size_table(results: dict[str, dict[str, Any]]) -> Table:
    table = Table("bytes of a first visit, brotli", *results)
    for title, key in (("model", "model"), ("WebAssembly", "wasm"), ("scripts", "scripts")):
        table.add_row(title, *(f"{found['bytes'][key]:,}" for found in results.values()))
    table.add_row("tokenizer", *(f"{found['bytes']['tokenizer']:,}" for found in results.values()))
    table.add_row("page", *(f"{found['bytes']['page']:,}" for found in results.values()))
    table.add_section()
    table.add_row("all but the model", *(f"{found['code']:,}" for found in results.values()))
    table.add_row("everything", *(f"{found['total']:,}" for found in results.values()))
    table.add_row("requests", *(str(found["requests"]) for found in results.values()))
    table.add_section()
    table.add_row("a second visit", *(f"{found['warm_bytes']:,}" for found in results.values()))
    table.add_row("requests", *(str(found["warm_requests"]) for found in results.values()))
    return table


def time_table(results: dict[str, dict[str, Any]]) -> Table:
    table = Table("", *results)
    base = next(iter(results.values()))
    for title, key in (("cold", "cold"), ("warm", "warm"), ("after a restart", "restarted")):
        cells = [
            f"{statistics.median(found[key]):.0f} ({min(found[key]):.0f} … {max(found[key]):.0f})"
            for found in results.values()
        ]
        table.add_row(f"first vector, {title}, ms", *cells)
        ratios = [statistics.median(ratios_of(found[key], base[key])) for found in results.values()]
        table.add_row("times the first page's", *(f"{ratio:.2f}" for ratio in ratios))
    table.add_row("peak memory, MB", *(f"{found['memory'] / 1e6:.0f}" for found in results.values()))
    table.add_row("cosine, mean", *(f"{found['cosine']['mean']:.4f}" for found in results.values()))
    table.add_row("cosine, least", *(f"{found['cosine']['least']:.4f}" for found in results.values()))
    return table


def speed_table(results: dict[str, dict[str, Any]]) -> Table:
    """Medians, and the ratio to the same loader on npm's WebAssembly, or where it is left out to the first page, round by round."""
    name = "stock wasm" if "stock wasm" in results else next(iter(results))
    table = Table(f"sentences/s (times {name})", *results)
    base = results[name]["rates"]
    for shape in base:
        cells = []
        for found in results.values():
            rates = found["rates"][shape]
            ratio = statistics.median(ratios_of(rates, base[shape]))
            cells.append(f"{statistics.median(rates):.1f} ({ratio:.2f})")
        table.add_row(shape, *cells)
    return table


def ratios_of(some: Sequence[float], base: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(some, base, strict=True)]


if __name__ == "__main__":
    main()
