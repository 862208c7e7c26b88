"""Bundles for NVIDIA GPUs through TensorRT: an engine built ahead of time, and the libraries that run it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

from edgepack.api import BuildContext, BuilderSpec, Target, TargetBuilder, hookimpl, is_installed


def create(target: Target, context: BuildContext) -> TargetBuilder:
    from edgepack_tensorrt.builder import create_builder

    return create_builder(target, context)


def missing(target: Target) -> Iterable[str]:
    """Tools that fetching the libraries and freezing the runner need."""
    yield from (tool for tool in ("objcopy", "patchelf") if not is_installed(tool))
    if importlib.util.find_spec("pip") is None:
        yield "pip"


def fetch(target: Target, context: BuildContext) -> None:
    """The wheels that a build takes its libraries from."""
    from edgepack_tensorrt.builder import create_builder, fetch_wheels

    create_builder(target, context)
    fetch_wheels(target, context)


@hookimpl
def edgepack_builders() -> Iterable[BuilderSpec]:
    return [
        BuilderSpec(
            name="tensorrt",
            summary="a folder for NVIDIA GPUs: TensorRT engine, its libraries, frozen runner",
            create=create,
            missing=missing,
            fetch=fetch,
        )
    ]
