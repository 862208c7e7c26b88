"""What other plugins may import of this one: ONNX Runtime for NVIDIA's GPUs, its CUDA provider, CUDA's terms."""

from edgepack_cuda.nvidia import (
    CUDA,
    DRIVER,
    GPU_FILES,
    HOST,
    ONNXRUNTIME_GPU,
    TENSORRT_PROVIDER,
    cuda_terms,
    dotted,
    missing,
    require_linux,
)
from edgepack_cuda.runtime import cuda_host

__all__ = [
    "CUDA",
    "DRIVER",
    "GPU_FILES",
    "HOST",
    "ONNXRUNTIME_GPU",
    "TENSORRT_PROVIDER",
    "cuda_host",
    "cuda_terms",
    "dotted",
    "missing",
    "require_linux",
]
