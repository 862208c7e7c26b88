"""Bundles for NVIDIA GPUs through TensorRT: an engine built ahead of time, and the libraries that run it."""

from collections.abc import Iterable

from edgepack.api import Spec, hookimpl, lazy


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(
            axis="builder",
            name="tensorrt",
            summary="a folder for NVIDIA GPUs: TensorRT engine, its libraries, native runner",
            make=lazy("edgepack_tensorrt.builder:create_builder"),
            options=lazy("edgepack_tensorrt.builder:OPTIONS"),
            missing=lazy("edgepack_cuda.api:missing"),
            fetch=lazy("edgepack_tensorrt.builder:fetch"),
        )
    ]
