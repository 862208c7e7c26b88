"""What the CUDA and the TensorRT plugin share: the wheel of ONNX Runtime for GPUs, the driver's libraries, terms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgepack.api import BuildContext, Target, missing_tools, require_platform
from edgepack.api.kit import Wheel, onnxruntime_files

if TYPE_CHECKING:
    from edgepack_cuda.runtime import Libraries

ONNXRUNTIME_GPU = Wheel(
    name="onnxruntime-gpu",
    version="1.31.1",
    sha256="e26c475fe361b2015f45b4b824bd13f0bb20204e59b62814e6f0acd5f3d491a6",
    size=255_560_985,
    python="cp311",
    platform="manylinux_2_28_x86_64",
)
"""CUDA 13; without cuDNN, cuFFT and NVRTC as long as no operator asks for them (since 1.28 to 1.31). Its libraries do not
depend on the Python that a wheel is for, so that one file serves every building machine."""
CUDA_PROVIDER = "libonnxruntime_providers_cuda.so"
TENSORRT_PROVIDER = "libonnxruntime_providers_tensorrt.so"
SHARED = "libonnxruntime_providers_shared.so"
"""What ONNX Runtime loads its own providers through."""
GPU_FILES = onnxruntime_files(CUDA_PROVIDER, TENSORRT_PROVIDER, SHARED)
"""What is kept of the wheel."""
GENERATIONS = ("80", "86", "89", "90", "120")
"""Ampere, Ada, Hopper and Blackwell, as far as the wheel has code."""
CUDA = "13.0"
"""What the driver must know: later 13.x run on it too (CUDA's minor version compatibility)."""
DRIVER = ("libcuda.so.1",)
"""What NVIDIA's driver brings, which must be of its kernel module's version."""
HOST = ("libstdc++.so.6", "libgcc_s.so.1")
"""Of the building machine, for devices that need not have them."""
_TERMS = (
    "{name} (NVIDIA CUDA Toolkit), from the wheel {wheel}, {how}.\n"
    "It is redistributable under the NVIDIA Software License Agreement and CUDA Supplement, Attachment A:\n"
    "https://docs.nvidia.com/cuda/eula/\n"
)


def cuda_terms(library: str, wheel: Wheel, *, how: str = "unmodified") -> str:
    """What a library of CUDA is under."""
    return _TERMS.format(name=library, wheel=wheel.requirement, how=how)


def cuda_host(context: BuildContext) -> Libraries:
    """ONNX Runtime for GPUs with its CUDA provider, for another provider that computes by itself.

    TensorRT's provider has the GPU's memory and its copies made by the CUDA provider (``CreateCUDAAllocator`` and
    ``CreateGPUDataTransfer`` of ONNX Runtime's provider bridge). Of the device code stays what is needed whatever the model is.
    """
    from edgepack_cuda.runtime import Choice, libraries_for

    return libraries_for(Choice(architectures=GENERATIONS, operators=()), context=context)


def missing(target: Target) -> Iterator[str]:
    """Tools that fetching the libraries and freezing the runner need."""
    return missing_tools("objcopy", "patchelf", packages={"pip": "pip"})


def require_linux(target: Target, hint: str) -> None:
    """NVIDIA's wheels are taken for Linux on x86-64 alone; ``hint`` says why. Raises ``TargetError``."""
    require_platform(target, os="linux", architectures=("x86_64",), hint=hint)
