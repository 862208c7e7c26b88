"""Sample bundles whose model ranks or classifies: the sample's vectors, and a last layer behind them."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from edgepack.files.store import digest_file
from edgepack.records.model import Activation, Head
from edgepack.runner.freeze.sample_bundle import DIMENSION
from edgepack.runner.tokenizer.compile import compile_tokenizer
from edgepack.verifier.outputs.scores import activated

LABELS = {"rank": ("score",), "classes": ("cats", "mats \U0001f408", "neither")}
PROGRAMS = ("embed", "embed.exe")
ACTIVATIONS = {"rank": "sigmoid", "classes": "softmax"}


def layer(task: str) -> tuple[np.ndarray, np.ndarray]:
    """Weight [labels, dimension] and bias [labels], float32."""
    random = np.random.default_rng(5)
    count = len(LABELS[task])
    return (
        random.normal(size=(count, DIMENSION)).astype(np.float32) * 3,
        random.normal(size=count).astype(np.float32),
    )


def write_scored(sample: Path, folder: Path, task: str, program: Path | None = None) -> Path:
    """A copy of a sample bundle with a head; ``program`` takes the place of a native one."""
    shutil.copytree(sample, folder, symlinks=True)
    weight, bias = layer(task)
    (folder / "model/head.bin").write_bytes(weight.tobytes() + bias.tobytes())
    manifest = json.loads((folder / "manifest.json").read_text())
    head = {"task": task, "head": "model/head.bin", "labels": LABELS[task], "activation": ACTIVATIONS[task]}
    manifest["model"] |= head
    if program is not None:
        shutil.copy(program, folder)
        table = folder / "model/tokenizer.bin"
        table.write_bytes(compile_tokenizer(sample_document(), pairs=True))
    kept = [file for file in manifest["files"] if not file["path"].endswith((".bin", *PROGRAMS))]
    for name in ("model/head.bin", "model/tokenizer.bin", *PROGRAMS):
        if (folder / name).is_file():
            found = digest_file(folder / name, relative_to=folder)
            kept.append(
                {
                    "path": found.path,
                    "size": found.size,
                    "sha256": found.sha256,
                    "mode": "0644",
                    "part": "model",
                }
            )
    (folder / "manifest.json").write_text(json.dumps({**manifest, "files": kept}))
    return folder


def sample_document() -> str:
    from edgepack.runner.freeze.sample_bundle import sample_tokenizer

    return sample_tokenizer()


def expected_scores(task: str, vectors: np.ndarray, activation: Activation | None = None) -> np.ndarray:
    """Of vectors [texts, dimension], float64 [texts, labels]."""
    weight, bias = layer(task)
    said: Any = {"task": task, "labels": LABELS[task], "activation": activation or ACTIVATIONS[task]}
    head = Head(**said, file=Path(), tensor="")
    return activated(head, vectors.astype(np.float64) @ weight.T.astype(np.float64) + bias)
