"""A fleet: many small models for ten targets, by Dask's workers that are killed, then again out of the store.

    PYTHONPATH=. nice .venv/bin/python benchmarks/fleet.py --models 100 --output /tmp/fleet --json /tmp/fleet.json

Models are real but for their size: encoders of two layers and 32 dimensions, or static tables, with random weights. Targets are edgepack's
own with other recipes, and what some of them are packed as. The first model is made alone before, so that what is compiled and linked once for each target is not counted with the cells. Then:

1. `first`: a LocalCluster makes all cells into an empty store, while every ``--kill-every`` seconds a worker is killed (SIGKILL);
2. `second`: the same project again with an empty output and an empty cache: everything comes from the store;
3. `up to date`: the same once more, with the output that is there now;
4. `one machine`: every cell of ``--compared`` models, without store and cluster, in a cache of its own but for what is compiled;
   digests of bundles and archives are compared with the first run's.
"""

import argparse
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file
from tests.support.small_models import write_small_model

from edgepack.files.store import default_root
from edgepack.project.rebuild_check import COMPILED, FETCHED, JUDGES
from edgepack.testing import write_static_model

TARGETS = {
    "encoder": {
        "linux-x86-min": ("linux-x86-min", "", ""),
        "linux-x86-deb": ("linux-x86-min", "", "deb"),
        "linux-x86-wheel": ("linux-x86-min", "", "wheel"),
        "linux-x86": ("linux-x86", "", ""),
        "linux-arm64-min": ("linux-arm64-min", "", ""),
        "linux-arm64-deb": ("linux-arm64-min", "", "deb"),
        "linux-arm64-wheel": ("linux-arm64-min", "", "wheel"),
        "linux-riscv64-min": ("linux-riscv64-min", "", ""),
        "linux-riscv64-deb": ("linux-riscv64-min", "", "deb"),
        "web-wasm": ("web-wasm", "", ""),
    },
    "static": {
        "x86-fp16": ("linux-x86-static", "fp16", ""),
        "x86-fp32": ("linux-x86-static", "fp32", ""),
        "x86-deb": ("linux-x86-static", "fp16", "deb"),
        "x86-fp32-deb": ("linux-x86-static", "fp32", "deb"),
        "x86-wheel": ("linux-x86-static", "fp16", "wheel"),
        "arm64-fp16": ("linux-arm64-static", "fp16", ""),
        "arm64-fp32": ("linux-arm64-static", "fp32", ""),
        "arm64-deb": ("linux-arm64-static", "fp16", "deb"),
        "arm64-fp32-deb": ("linux-arm64-static", "fp32", "deb"),
        "arm64-wheel": ("linux-arm64-static", "fp16", "wheel"),
    },
}
"""Kind of model → name → the target that it is like, its recipe, and what it is packed as."""
LINKED = ("program", "runtime", "runtime-web", "standalone", "runner", "tables-program")
"""Kinds of entries that are made once for a target, whatever the model's weights are."""


def main() -> None:
    options = arguments()
    root: Path = options.output.absolute()
    project = write_project(root, options)
    warm(root)
    store = root / "store"
    found: dict[str, Any] = {"models": options.models, "targets": options.targets, "workers": options.workers}
    found["first"] = first_run(project, store, root / "dist", options)
    save(found, options)
    found["second"] = build(
        project, root / "dist-again", store, cache=root / "empty-cache", jobs=options.workers
    )
    found["second"]["compiled"] = [
        kind for kind in (*COMPILED, *LINKED) if any((root / "empty-cache").glob(f"{kind}/*/*"))
    ]
    save(found, options)
    found["up to date"] = build(
        project, root / "dist-again", store, cache=root / "empty-cache", jobs=options.workers
    )
    save(found, options)
    found["one machine"] = one_machine(root, options)
    found["sharded"] = sharded(root, options)
    found["same"] = compared(root / "dist", root / "dist-again", every=True)
    save(found, options)


def arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--models", type=int, default=100)
    made.add_argument("--targets", type=int, default=10)
    made.add_argument("--kind", choices=list(TARGETS), default="static")
    made.add_argument("--workers", type=int, default=2)
    made.add_argument("--kill-every", type=float, default=60.0, metavar="SECONDS")
    made.add_argument("--kills", type=int, default=1000, help="workers that are killed at most")
    made.add_argument("--compared", type=int, default=2, metavar="MODELS")
    made.add_argument("--output", type=Path, required=True, help="a folder for all of it")
    made.add_argument("--json", type=Path)
    return made.parse_args()


def write_project(root: Path, options: argparse.Namespace) -> Path:
    """Models, targets, and the file that names them all."""
    for number in range(options.models):
        folder = root / "models" / f"m{number:03}"
        if not folder.exists():
            write_static_model(folder, seed=number) if options.kind == "static" else write_encoder(
                folder, number
            )
    names = list(TARGETS[options.kind])[: options.targets]
    (root / "targets").mkdir(exist_ok=True)
    for name in names:
        (root / "targets" / f"{name}.toml").write_text(_target(*TARGETS[options.kind][name]))
    return _project(root / "edgepack.toml", "models/*", names)


def write_encoder(folder: Path, number: int) -> None:
    """The first is that of the tests, the others have noise upon its weights."""
    write_small_model(folder, "byte-level")
    tensors = load_file(folder / "model.safetensors")
    noise = np.random.default_rng(number)
    changed = {
        name: (value + noise.normal(0, 0.02, value.shape)).astype(value.dtype)
        for name, value in tensors.items()
        if number and value.dtype.kind == "f"
    }
    save_file({**tensors, **changed}, folder / "model.safetensors", metadata={"format": "pt"})


def _target(like: str, recipe: str, form: str) -> str:
    own = Path(__file__).parent.parent / "targets" / f"{like}.toml"
    text = own.read_text() if own.is_file() else (files("edgepack_riscv64") / f"{like}.toml").read_text()
    if recipe:
        text = re.sub(r'recipe = "\w+"', f'recipe = "{recipe}"', text)
    return text + (f'\n[package]\nformats = ["{form}"]\nversion = "1.0.0"\n' if form else "")


def _project(file: Path, models: str, names: list[str], output: str = "dist") -> Path:
    targets = json.dumps([f"targets/{name}.toml" for name in names])
    file.write_text(f'[[bundle]]\nmodels = ["{models}"]\ntargets = {targets}\noutput = "{output}"\n')
    return file


def warm(root: Path) -> None:
    """What is compiled and linked once for each target is in the user's cache then."""
    names = [path.stem for path in sorted((root / "targets").iterdir())]
    project = _project(root / "warm.toml", "models/m000", names, output="warm")
    made = build(project, root / "warm", None, cache=None, jobs=1)
    if set(made["states"]) - {"made", "up to date"}:
        raise SystemExit(f"the first model cannot be made: {made}")


def first_run(project: Path, store: Path, output: Path, options: argparse.Namespace) -> dict[str, Any]:
    """By Dask, while workers are killed."""
    import dask
    from distributed import LocalCluster

    # As many as are killed here on purpose: by default a cell that four workers died with is given up.
    dask.config.set({"distributed.scheduler.allowed-failures": 1000})
    killed: list[int] = []
    done = threading.Event()
    # Memory is the machine's business: Dask's own limit would kill more.
    with LocalCluster(
        n_workers=options.workers, threads_per_worker=1, memory_limit=0, dashboard_address=None
    ) as cluster:

        def kill() -> None:
            chosen = random.Random(20)
            while len(killed) < options.kills and not done.wait(options.kill_every):
                alive = [nanny.pid for nanny in cluster.workers.values() if nanny.pid]
                if alive:
                    killed.append(chosen.choice(alive))
                    os.kill(killed[-1], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            made = build(
                project,
                output,
                store,
                cache=None,
                more=["--executor", "dask", "--scheduler", cluster.scheduler_address],
            )
        finally:
            done.set()
            killer.join()
    return {**made, "workers killed": len(killed)}


def one_machine(root: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Without store and cluster; what is compiled is reused, everything else is made again."""
    made = build(_few(root, options, "alone"), root / "alone", None, cache=_own_cache(root, "alone"), jobs=1)
    return {**made, **compared(root / "alone", root / "dist", every=False)}


def sharded(root: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The same cells by two shards, each with a cache of its own, into one folder."""
    project = _few(root, options, "shards")
    halves = [
        build(
            project,
            root / "shards",
            None,
            cache=_own_cache(root, f"shard-{number}"),
            more=["--shard", f"{number}/2"],
        )
        for number in (1, 2)
    ]
    states = sum((Counter(half["states"]) for half in halves), Counter[str]())
    return {"states": dict(states), **compared(root / "shards", root / "dist", every=False)}


def _few(root: Path, options: argparse.Namespace, name: str) -> Path:
    """A project of so many models as are compared."""
    names = list(TARGETS[options.kind])[: options.targets]
    models = [f"models/m{number:03}" for number in range(1, min(options.compared, options.models - 1) + 1)]
    return _project(root / f"{name}.toml", '", "'.join(models), names, output=name)


def _own_cache(root: Path, name: str) -> Path:
    """An empty one, but for what was fetched, and compiled or linked once for a target."""
    cache = root / f"{name}-cache"
    cache.mkdir(exist_ok=True)
    for kind in (*FETCHED, *COMPILED, *JUDGES, *LINKED):
        if (default_root() / kind).is_dir() and not (cache / kind).exists():
            (cache / kind).symlink_to(default_root() / kind)
    return cache


def build(
    project: Path,
    output: Path,
    store: Path | None,
    *,
    cache: Path | None,
    jobs: int | None = None,
    more: list[str] | None = None,
) -> dict[str, Any]:
    """`edgepack build` as anybody runs it: states, seconds of the whole and of the cells."""
    text = project.read_text()
    project.write_text(
        "\n".join(line for line in text.splitlines() if not line.startswith("output"))
        + f'\noutput = "{output}"\n'
    )
    report = project.with_suffix(f".{output.name}.json")
    command = [
        sys.executable,
        "-m",
        "edgepack",
        "build",
        "-p",
        str(project),
        "--offline",
        "--report",
        str(report),
    ]
    command += ["--store", str(store)] if store else []
    command += ["--jobs", str(jobs)] if jobs else []
    environment = {**os.environ, **({"EDGEPACK_CACHE": str(cache)} if cache else {})}
    started = time.monotonic()
    done = subprocess.run([*command, *(more or [])], env=environment, stdout=subprocess.DEVNULL, check=False)
    seconds = time.monotonic() - started
    cells = json.loads(report.read_text())["bundles"]
    states = [cell["state"] for cell in cells]
    return {
        "exit code": done.returncode,
        "cells": len(cells),
        "states": {state: states.count(state) for state in sorted(set(states))},
        "seconds": round(seconds, 1),
        "seconds a cell": round(seconds / len(cells), 3),
        "median seconds in a worker": round(float(np.median([cell["seconds"] for cell in cells])), 2),
        "warnings": sum(len(cell["warnings"]) for cell in cells),
        "errors": [cell["error"] for cell in cells if cell["error"]][:3],
    }


def compared(one: Path, other: Path, *, every: bool) -> dict[str, Any]:
    """Files of bundles, archives and packages in ``one``, and which of them are not the same in ``other``."""
    names = sorted(
        path.relative_to(one)
        for path in one.rglob("*")
        # Reports and what is remembered have times in them.
        if path.is_file() and not path.name.endswith((".report.json", ".edgepack-build.json", ".lock"))
    )
    differ = [
        str(name)
        for name in names
        if not (other / name).is_file() or _digest(one / name) != _digest(other / name)
    ]
    extra = len([path for path in other.rglob("*") if path.is_file()]) - len(
        [path for path in one.rglob("*") if path.is_file()]
    )
    return {
        "files compared": len(names),
        "files that differ": differ[:5],
        **({"more files": extra} if every else {}),
    }


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def save(found: dict[str, Any], options: argparse.Namespace) -> None:
    text = json.dumps(found, indent=1)
    print(text, flush=True)  # noqa: T201
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
