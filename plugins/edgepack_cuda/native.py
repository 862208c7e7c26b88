"""``native`` as an architecture: that of the GPU in this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from edgepack.api import TargetError, find, is_installed

TOOL = "nvidia-smi"


def resolve(architectures: Sequence[str]) -> tuple[str, ...]:
    """The architectures with ``native`` replaced by what is seen here, e.g. ``("86",)``. Raises ``TargetError``."""
    found = (here for each in architectures for here in (_seen() if each == "native" else (each,)))
    return tuple(dict.fromkeys(found))


def _seen() -> tuple[str, ...]:
    hint = 'name the compute capability of the devices, e.g. cuda_arch = ["86"]'
    if not is_installed(TOOL):
        raise TargetError(f"architecture native: no GPU is seen here, there is no {TOOL}", hint=hint)
    command = [str(find(TOOL)), "--query-gpu=compute_cap", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line.strip().replace(".", "") for line in done.stdout.splitlines()]
    if done.returncode or not lines or not all(line.isdigit() for line in lines):
        raise TargetError(f"architecture native: {TOOL} sees no GPU here", hint=hint)
    return tuple(sorted(set(lines)))
