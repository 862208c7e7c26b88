"""Bundles for browsers: an ES module, a WebAssembly ONNX Runtime, a small model, and files that any host can serve."""

from __future__ import annotations

from collections.abc import Iterable

from edgepack.api import Spec, Target, hookimpl, is_installed, lazy
from edgepack.api.kit import has_node


def missing(target: Target) -> Iterable[str]:
    """npm fetches the stock runtime, Node runs the bundle for verification."""
    if not has_node():
        yield "node"
    if not is_installed("npm") and not has_node():
        yield "npm"


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(
            axis="builder",
            name="web",
            summary="a folder for browsers: ES module, WebAssembly ONNX Runtime, small model, precompressed",
            make=lazy("edgepack_web.builder:create_builder"),
            options=lazy("edgepack_web.builder:options"),
            missing=missing,
            fetch=lazy("edgepack_web.packages:fetch_packages"),
            next_step="edgepack serve-web {bundle} shows it in a browser",
        )
    ]
