"""edgepack turns a text-embedding model into something a device can run, and proves that it is right.

``edgepack.bundle("./my-model", target="linux-x86-min")`` does what the command of that name does; ``edgepack.python_api`` says
what there is. Importing this is light: each function imports what it needs when it is called.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from io import FileIO

__version__ = "0.1.0"
__all__ = [
    "Bundle",
    "Quantized",
    "build",
    "bundle",
    "check_device",
    "check_signature",
    "inspect",
    "prove",
    "quantize",
    "report",
    "sign",
    "verify",
    "verify_on",
]

# Before numpy is loaded: with another number of threads its BLAS adds in another order, and recipes that round by sums give other bytes.
for _threads in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ.setdefault(_threads, "1")


def _common_kernels(system: str, machine: str, processor: str = "/proc/cpuinfo") -> str | None:
    """OpenBLAS' kernels that all usual processors of a kind have, ``None`` where this one lacks them: its own add in another order."""
    if system != "linux":
        return None
    if machine == "x86_64":
        try:
            with FileIO(processor) as file:
                said = file.read(4096)  # the first processor; all of a large machine's take a while
        except OSError:
            return None
        return "Haswell" if {b"avx2", b"fma"} <= set(said.split()) else None
    return "ARMV8" if machine == "aarch64" else None


if _kernels := _common_kernels(sys.platform, os.uname().machine if hasattr(os, "uname") else ""):
    os.environ.setdefault("OPENBLAS_CORETYPE", _kernels)

PYTHONS = ("3.11", "3.12", "3.13")
LACKING = "onnx 1.18.0 and onnxruntime 1.21.0 have no wheels"


def wrong_python(version: tuple[int, int] = sys.version_info[:2]) -> tuple[str, str] | None:
    """Why edgepack does not run on a Python, and what to type; ``None``: it does. `make` asks, of Pythons older than any of these, too."""
    own = ".".join(map(str, version))
    if own in PYTHONS:
        return None
    newer = f", for which {LACKING}" if version > (3, 13) else ""
    install = f"install --python {PYTHONS[-1]} 'edgepack[build]'"
    remedy = f"uv tool {install} (uv fetches that Python), or with one that is installed: pipx {install}"
    checkout = f"in a checkout: make bundle PYTHON=python{PYTHONS[-1]}"
    return f"edgepack runs on Python {', '.join(PYTHONS)}; this is {own}{newer}", f"{remedy}; {checkout}"


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'edgepack' has no attribute {name!r}")
    said = wrong_python()
    if said:
        raise ImportError("; ".join(said))
    return getattr(import_module("edgepack.python_api"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
