"""Run what `benchmarks/gpu_kit.py` packed on this machine's GPU. Python's standard library alone, and no network.

    python3 benchmarks/gpu_check.py dist/gpu-kit [results.json]

Each check is a process of its own, with the runner's own sources. Exit code 1 when one fails.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tarfile
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LEAST_COSINE = 0.9999
PRUNED_ERROR = "was pruned"
ROUNDS = 30
PROVIDER = "libonnxruntime_providers_cuda.so"


def unpack(kit: Path) -> Path:
    """The kit laid out, with libraries pruned, with all units, and over-pruned, each in a folder of its own."""
    place = ROOT / "build" / "gpu"
    place.mkdir(parents=True, exist_ok=True)
    for name in ("kit.tar.xz", "whole.tar.xz"):
        if (kit / name).exists():
            with tarfile.open(kit / name) as archive:
                archive.extractall(place, filter="data")
    for other in ("broken", "whole"):
        if other == "whole" and not (place / other / PROVIDER).exists():
            continue
        (place / other).mkdir(exist_ok=True)
        for file in (place / "lib").iterdir():
            if file.name != PROVIDER or other == "broken":
                shutil.copy(file, place / other / file.name)
    facts = json.loads((place / "facts.json").read_text())
    with (place / "broken" / PROVIDER).open("r+b") as stream:
        stream.seek(facts["empty_at"])
        stream.write(bytes(8))
    return place


def one(place: Path, folder: str, batch: int) -> dict[str, Any]:
    """In a process of its own: vectors beside full precision, and how long batches take."""
    sys.path.insert(0, str(ROOT / "src"))
    from edgepack.runner.frozen.embedder import pad
    from edgepack.runner.frozen.errors import EmbedError
    from edgepack.runner.frozen.open import Engine

    facts = json.loads((place / "facts.json").read_text())
    provider = {
        "name": "CUDAExecutionProvider",
        "append": "cuda",
        "library": "",
        "options": {"device_id": "0", "sdpa_kernel": "18", "use_tf32": "0"},
        "session": {},
        "optimization": "none",
        "capabilities": facts["capabilities"],
        "cuda": "13.0",
        "libraries": facts["libraries"],
        "batch_size": batch,
    }
    runtime = next((place / folder).glob("libonnxruntime.so*"))
    manifest: dict[str, Any] = {"runtime": {"provider": provider}}
    bundle = SimpleNamespace(
        library=str(runtime),
        model=str(place / "model.onnx"),
        cpu_model=str(place / "model.onnx"),
        directory=str(place),
        value=lambda *keys: manifest[keys[0]],
    )
    try:
        begun = time.perf_counter()
        engine = Engine(bundle, 4)  # type: ignore[arg-type]
        loaded = time.perf_counter() - begun
        rows = [(ids, [0] * len(ids)) for ids in facts["ids"]]
        found: list[array[float]] = []
        for start in range(0, len(rows), batch):
            try:
                found += engine.session.run(*pad(rows[start : start + batch], 0))
            except Exception as error:
                raise engine.failure(error) from error  # type: ignore[arg-type]
        cosines = [cosine(a, b) for a, b in zip(found, facts["vectors"], strict=True)]
        times = measure(engine, pad(([rows[0]] * batch), 0))
    except EmbedError as error:
        return {"error": error.message, "code": error.exit_code}
    return {
        "provider": engine.provider,
        "device": engine.device,
        "nodes": engine.nodes,
        "load_s": round(loaded, 3),
        "min_cosine": min(cosines),
        "mean_cosine": sum(cosines) / len(cosines),
        "batch_ms": round(times[len(times) // 2] * 1e3, 3),
        "least_ms": round(times[0] * 1e3, 3),
    }


def measure(engine: Any, feed: Sequence[Any]) -> list[float]:
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        engine.session.run(*feed)
        times.append(time.perf_counter() - begun)
    return sorted(times[5:])


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    product = math.fsum(a * b for a, b in zip(first, second, strict=True))
    return product / math.sqrt(math.fsum(a * a for a in first) * math.fsum(b * b for b in second))


def check(place: Path, folder: str, batch: int, loading: str) -> dict[str, Any]:
    environment = {**os.environ, "CUDA_MODULE_LOADING": loading}
    command = [sys.executable, __file__, "--one", str(place), folder, str(batch)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    said: dict[str, Any] = {"folder": folder, "batch": batch, "loading": loading}
    try:
        said |= json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        said |= {"error": done.stderr[-400:] or f"ended with {done.returncode}"}
    if folder == "broken":
        said["good"] = PRUNED_ERROR in said.get("error", "")
    else:
        said["good"] = (
            said.get("min_cosine", 0) >= LEAST_COSINE and said.get("provider") == "CUDAExecutionProvider"
        )
    return said


def main() -> int:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(one(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))  # noqa: T201
        return 0
    place = unpack(Path(sys.argv[1]))
    folders = ["lib", *(["whole"] if (place / "whole" / PROVIDER).exists() else []), "broken"]
    results = []
    for folder in folders:
        for loading in ("LAZY", "EAGER"):
            for batch in (1, 8, 32) if folder != "broken" else (1,):
                results.append(check(place, folder, batch, loading))
                print(json.dumps(results[-1]), flush=True)  # noqa: T201
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(json.dumps(results, indent=1))
    return 0 if all(result["good"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
