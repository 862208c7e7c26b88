"""Bundles for NVIDIA GPUs: ONNX Runtime's CUDA provider with only the device code that the model and the GPU ask for."""

from __future__ import annotations

from collections.abc import Iterable

import click

from edgepack.api import hookimpl


@hookimpl
def edgepack_commands() -> Iterable[click.Command]:
    from edgepack_cuda.command import cuda

    return [cuda]
