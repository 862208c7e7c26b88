"""Bundles for browsers: an ES module, a WebAssembly ONNX Runtime, a small model, and files that any host can serve."""

from __future__ import annotations

from collections.abc import Iterable

from edgepack.api import (
    BuildContext,
    BuilderSpec,
    OptionTable,
    Target,
    TargetBuilder,
    has_node,
    hookimpl,
    is_installed,
)


def create(target: Target, context: BuildContext) -> TargetBuilder:
    from edgepack_web.builder import create_builder

    return create_builder(target, context)


def missing(target: Target) -> Iterable[str]:
    """npm fetches the stock runtime, Node runs the bundle for verification."""
    if not has_node():
        yield "node"
    if not is_installed("npm") and not has_node():
        yield "npm"


def fetch(target: Target, context: BuildContext) -> None:
    """What a build of this target needs from elsewhere."""
    from edgepack_web.packages import fetch_packages

    fetch_packages(target, context)


def options() -> OptionTable:
    """What ``[options]`` of a target may say."""
    from edgepack_web.builder import OPTIONS

    return OPTIONS


@hookimpl
def edgepack_builders() -> Iterable[BuilderSpec]:
    return [
        BuilderSpec(
            name="web",
            summary="a folder for browsers: ES module, WebAssembly ONNX Runtime, small model, precompressed",
            create=create,
            missing=missing,
            options=options,
            fetch=fetch,
        )
    ]
