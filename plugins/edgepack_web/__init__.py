"""Bundles for browsers: an ES module, WebAssembly (ONNX Runtime or edgepack's engine), a small model, and files that any host can serve."""

from collections.abc import Iterable

from edgepack.api import Spec, hookimpl, lazy


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(
            axis="builder",
            name="web",
            summary="a folder for browsers: ES module, WebAssembly (ONNX Runtime or edgepack's engine), small model, precompressed",
            make=lazy("edgepack_web.builder:create_builder"),
            options=lazy("edgepack_web.builder:OPTIONS"),
            formats=("plan",),
            missing=lazy("edgepack_web.npm.node:missing"),
            fetch=lazy("edgepack_web.packages:fetch"),
            next_step="edgepack serve-web {bundle}",
        ),
        Spec(
            axis="checks",
            name="page",
            summary="what browsers are sent of a page says of the model what the manifest says",
            make=lazy("edgepack_web.sound:PageCheck"),
        ),
        Spec(
            axis="platform",
            name="web",
            summary="a WebAssembly ONNX Runtime and its JavaScript",
            make=lazy("edgepack_web.foundry.platform:WebPlatform"),
        ),
    ]
