"""Bundles for NVIDIA GPUs: ONNX Runtime's CUDA provider with only the device code that the model and the GPU require."""

from collections.abc import Iterable

from edgepack.api import Spec, hookimpl, lazy


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(
            axis="builder",
            name="cuda",
            summary="a folder for NVIDIA GPUs: pruned CUDA provider, fused float16 model, native runner",
            make=lazy("edgepack_cuda.builder:create_builder"),
            options=lazy("edgepack_cuda.builder:OPTIONS"),
            missing=lazy("edgepack_cuda.nvidia:missing"),
            fetch=lazy("edgepack_cuda.builder:fetch"),
        )
    ]
