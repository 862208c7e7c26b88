"""What installed plugins add to `edgepack targets`: CPU time of a start with 50 of them, and without.

    python benchmarks/plugins.py [--plugins 50] [--rounds 15]

Each plugin is a distribution of its own with a builder and a target. What importing a plugin's module takes is its own affair:
these import nothing but ``edgepack.api``.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

CODE = """
from importlib.resources import files
from edgepack import api

@api.hookimpl
def edgepack_specs():
    return [api.Spec(axis="builder", name="NAME", summary="", make=api.lazy("NAME.builder:make"))]

@api.hookimpl
def edgepack_targets():
    return [files(__name__) / "NAME-one.toml"]
"""
TARGET = """
schema = 1
summary = "the one of NAME"
builder = "NAME"
[platform]
os = "linux"
arch = "x86_64"
"""


def install(folder: Path, count: int) -> None:
    """Lay out so many distributions, as pip does."""
    for number in range(count):
        name = f"plugin_{number:03}"
        package, info = folder / name, folder / f"{name}-1.0.dist-info"
        package.mkdir(parents=True)
        info.mkdir()
        (package / "__init__.py").write_text(CODE.replace("NAME", name))
        (package / f"{name}-one.toml").write_text(TARGET.replace("NAME", name))
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[edgepack]\n{name} = {name}\n")


def seconds(path: Path | None) -> float:
    """CPU time of one `edgepack targets --json`, a new process, with a folder on its path."""
    environment = {**os.environ, **({"PYTHONPATH": str(path)} if path else {})}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "edgepack", "targets", "--json"],
        env=environment,
        check=True,
        capture_output=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Time both in turn, so that what else the machine does hits both; print medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--plugins", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        install(Path(folder), arguments.plugins)
        seconds(Path(folder))  # bytecode is written
        pairs = [(seconds(None), seconds(Path(folder))) for _ in range(arguments.rounds)]
    without, with_them = (statistics.median(times) for times in zip(*pairs, strict=True))
    added = statistics.median(there - not_there for not_there, there in pairs)
    console = Console()
    console.print(f"edgepack targets: {1e3 * without:.0f} ms")
    console.print(f"with {arguments.plugins} plugins: {1e3 * with_them:.0f} ms, {1e3 * added:.0f} ms more")


if __name__ == "__main__":
    main()
