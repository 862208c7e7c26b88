"""What strangers' manifests say of sparse vectors, vectors of tokens, labels and pairs, with lines of strangers."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from edgepack.runner.freeze.sample_bundle import DIMENSION, sample_tokenizer, write_manifest
from edgepack.runner.native.sources import own_encoder, program_sources
from edgepack.runner.tokenizer.compile import compile_tokenizer
from tests.fuzz.native import SANITIZERS, has_sanitizers, native_campaign
from tests.fuzz.rounds import Campaign
from tests.support.given import SPARSE, TOKENS
from tests.support.native import compile_together

SIDES = {
    "marker": 4,
    "expand": 4294967295,
    "length": 16777216,
    "least": 65536,
    "attend": True,
    "skip": [0, 12, 16777216],
}
MANIFESTS = (
    {"outputs": SPARSE},
    {"outputs": TOKENS},
    {
        "outputs": {
            "dense": True,
            "multi_vector": {"dimension": 8, "first": 1, "query": SIDES, "document": SIDES},
        }
    },
    {"task": "rank", "labels": ["LABEL_0", "b"], "activation": "sigmoid", "head": "model/head.bin"},
    {"task": "classify", "labels": ["a", "\u0085\ud83d"], "activation": "softmax", "head": "model/head.bin"},
    {"task": "classify", "labels": ["a", "a"], "activation": "one-vs-rest", "head": "model/head.bin"},
)
LINES = '{"text": "a cat", "query": "the kitten sat", "score": 1}\n{"text": "mat", "query": 7}\n"a"\n\n{"query": "\\ud83d", "text": "cats"}\n'


def compile_outputs(folder: Path, *flags: str) -> Path:
    """``fuzz`` with the target ``outputs``, and the bundle that it changes the manifest of."""
    own = Path(__file__).parent
    encoder = own_encoder({"encoder.cc": (own / "outputs/encoder.cc").read_text(encoding="utf-8")})
    sources = dict(program_sources(encoder, ("outputs", "scores")))
    del sources["program/main.cc"]
    for name in ("outputs/write_outputs.cc", "scoring/scoring.cc"):
        # The program ends after one; here there are many.
        taken = sources[name].replace("Embedder &embedder = *new Embedder;", "Embedder embedder;")
        assert taken != sources[name]
        sources[name] = taken
    for path in (own / "driver.cc", own / "outputs/outputs.cc"):
        sources[f"fuzz/{path.name}"] = path.read_text(encoding="utf-8")
    write_bundle(folder / "bundle")
    return compile_together(sources, folder / "fuzz", *flags)


def write_bundle(folder: Path) -> None:
    """A sound one, whose manifest has a place for what the fuzzer says."""
    for name in ("model", "lib"):
        (folder / name).mkdir(parents=True)
    (folder / "model/model.onnx").write_bytes(b"x")
    (folder / "lib/libonnxruntime.so").write_bytes(b"x")
    (folder / "golden.json").write_bytes(b"{}")
    (folder / "model/tokenizer.bin").write_bytes(compile_tokenizer(sample_tokenizer()))
    head = np.linspace(-2, 2, 2 * (DIMENSION + 1), dtype="<f4")
    (folder / "model/head.bin").write_bytes(head.tobytes())
    write_manifest(folder, library="lib/libonnxruntime.so")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["model"] = {"fuzzed": 0, **manifest["model"]}
    (folder / "sound.json").write_text(json.dumps(manifest))


def write_seeds(folder: Path) -> list[Path]:
    """Members of the manifest's section, and lines."""
    paths = []
    for number, members in enumerate(MANIFESTS):
        paths.append(folder / f"outputs-{number}")
        paths[-1].write_text(json.dumps(members)[1:-1] + "\n" + LINES)
    return paths


def campaigns(folder: Path) -> Iterator[Campaign]:
    program = compile_outputs(folder, *(SANITIZERS if has_sanitizers(folder) else ("-O1",)))
    yield native_campaign(program, "outputs", write_seeds(folder))
