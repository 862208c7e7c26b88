"""Kernels of MLAS that are written anew for WebAssembly, in the place of upstream's."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources

from edgepack.foundry.compile.archive import KernelArchive
from edgepack.foundry.compile.generate import MLAS, Reduction, replaced
from edgepack.foundry.compile.objects import Job

FOLDER = "core/mlas/lib"


def kernel_sources() -> dict[str, str]:
    """File name, as upstream's → text."""
    folder = resources.files("edgepack.foundry.web") / "data"
    return {
        file.name: file.read_text(encoding="utf-8") for file in folder.iterdir() if file.name.endswith(".cpp")
    }


def with_kernels(archive: KernelArchive, reduction: Reduction) -> Reduction:
    """The reduction with these kernels; what they compute is what upstream's compute."""
    jobs: dict[str, Job] = {}
    for name, text in sorted(kernel_sources().items()):
        unit = next(
            unit for unit in archive.units if unit.startswith(MLAS) and unit.endswith(f"{FOLDER}/{name}")
        )
        jobs[unit] = replaced(archive, unit, f"{FOLDER}/{name}", text)
    return replace(reduction, overrides={**reduction.overrides, **jobs})
