"""Bundles for Linux on x86-64: a reduced ONNX Runtime, an ORT-format model and a frozen runner."""

from __future__ import annotations

from collections.abc import Iterable

from edgepack.api import (
    BuildContext,
    BuilderSpec,
    OptionTable,
    Target,
    TargetBuilder,
    hookimpl,
    missing_tools,
)


def create(target: Target, context: BuildContext) -> TargetBuilder:
    from edgepack_linux.builder import create_builder

    return create_builder(target, context)


def missing(target: Target) -> Iterable[str]:
    """Tools that compiling a runtime and freezing the runner need."""
    return missing_tools("cmake", "ninja", "objcopy", packages={"ziglang": "zig", "capstone": "capstone"})


def options() -> OptionTable:
    """What ``[options]`` of a target may say."""
    from edgepack_linux.builder import OPTIONS

    return OPTIONS


@hookimpl
def edgepack_builders() -> Iterable[BuilderSpec]:
    return [
        BuilderSpec(
            name="linux",
            summary="a folder for Linux: reduced ONNX Runtime, small model, frozen runner",
            create=create,
            missing=missing,
            options=options,
        )
    ]
