"""``native`` as an architecture: those of the GPUs in this machine."""

from collections.abc import Sequence

from edgepack.api import TargetError, ToolError, is_installed
from edgepack.api.kit import find, run_tool

TOOL = "nvidia-smi"
SECONDS = 60
"""A driver that hangs is not waited for."""


def resolve(architectures: Sequence[str]) -> tuple[str, ...]:
    """Architectures of compute capabilities, ``native`` being what is seen here: ``("86",)`` for ``8.6`` or ``86``.

    Raises ``TargetError``.
    """
    found = (
        here for each in architectures for here in (_seen() if each == "native" else (each.replace(".", ""),))
    )
    return tuple(dict.fromkeys(found))


def _seen() -> tuple[str, ...]:
    """Compute capability of all GPUs here, whatever ``CUDA_VISIBLE_DEVICES`` says."""
    hint = "name the compute capability of the devices, e.g. 8.6"
    if not is_installed(TOOL):
        raise TargetError(f"architecture native: no GPU found, there is no {TOOL}", hint=hint)
    try:
        said = run_tool([find(TOOL), "--query-gpu=compute_cap", "--format=csv,noheader"], timeout=SECONDS)
    except ToolError as error:
        raise TargetError(
            f"architecture native: {TOOL} finds no GPU here: {error.message.splitlines()[-1]}", hint=hint
        ) from error
    lines = [line.strip().replace(".", "") for line in said.splitlines() if line.strip()]
    if not lines or not all(line.isdigit() for line in lines):
        raise TargetError(f"architecture native: {TOOL} finds no GPU here", hint=hint)
    return tuple(sorted(set(lines), key=int))
