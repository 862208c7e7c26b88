"""Bundles for NVIDIA GPUs: ONNX Runtime's CUDA provider with only the device code that the model and the GPU ask for."""

from __future__ import annotations

from collections.abc import Iterable

from edgepack.api import BuildContext, BuilderSpec, OptionTable, Target, TargetBuilder, hookimpl
from edgepack_cuda.nvidia import missing


def create(target: Target, context: BuildContext) -> TargetBuilder:
    from edgepack_cuda.builder import create_builder

    return create_builder(target, context)


def fetch(target: Target, context: BuildContext) -> None:
    """The wheels that a build takes its libraries from."""
    from edgepack_cuda.builder import create_builder, fetch_wheels

    create_builder(target, context)
    fetch_wheels(target, context)


def options() -> OptionTable:
    """What ``[options]`` of a target may say."""
    from edgepack_cuda.builder import OPTIONS

    return OPTIONS


@hookimpl
def edgepack_builders() -> Iterable[BuilderSpec]:
    return [
        BuilderSpec(
            name="cuda",
            summary="a folder for NVIDIA GPUs: pruned CUDA provider, fused float16 model, frozen runner",
            create=create,
            missing=missing,
            options=options,
            fetch=fetch,
        )
    ]
