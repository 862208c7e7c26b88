"""Bundles for NVIDIA GPUs: ONNX Runtime's CUDA provider with only the device code that the model and the GPU ask for."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

import click

from edgepack.api import BuildContext, BuilderSpec, Target, TargetBuilder, hookimpl, is_installed


def create(target: Target, context: BuildContext) -> TargetBuilder:
    from edgepack_cuda.builder import create_builder

    return create_builder(target, context)


def missing(target: Target) -> Iterable[str]:
    """Tools that fetching the libraries and freezing the runner need."""
    yield from (tool for tool in ("objcopy", "patchelf") if not is_installed(tool))
    if importlib.util.find_spec("pip") is None:
        yield "pip"


@hookimpl
def edgepack_builders() -> Iterable[BuilderSpec]:
    return [
        BuilderSpec(
            name="cuda",
            summary="a folder for NVIDIA GPUs: pruned CUDA provider, fused float16 model, frozen runner",
            create=create,
            missing=missing,
        )
    ]


@hookimpl
def edgepack_commands() -> Iterable[click.Command]:
    from edgepack_cuda.command import cuda

    return [cuda]
