"""NVIDIA's side of a bundle: wheels by their content, the driver's libraries, terms, compute capabilities."""

from collections.abc import Iterator

from edgepack.api import Target, missing_tools, require_platform
from edgepack.api.kit import Wheel, onnxruntime_files

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
CUBLAS = Wheel(
    name="nvidia-cublas",
    version="13.10.0.20",
    sha256="dcc6d63884c53d07e267ce7e6feac17b2538cebaafec5db865736c3e28e4dc84",
    size=444_289_903,
    platform="manylinux1_x86_64",
)
CUDART = Wheel(
    name="nvidia-cuda-runtime",
    version="13.5.37",
    sha256="df2b79a8852f10d1fef8c848489c49eebb5754051bf870202a862831412b179d",
    size=2_504_024,
    platform="manylinux2014_x86_64",
)
CUDA_PROVIDER = "libonnxruntime_providers_cuda.so"
SHARED = "libonnxruntime_providers_shared.so"
"""What ONNX Runtime loads its own providers through."""
GPU_FILES = onnxruntime_files(CUDA_PROVIDER, SHARED)
"""What is kept of the wheel."""
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
    return _TERMS.format(name=library, wheel=wheel.requirement, how=how)


def missing(target: Target) -> Iterator[str]:
    """Missing tools to fetch the libraries, and to compile the program."""
    return missing_tools("patchelf", packages={"pip": "pip", "ziglang": "zig"})


def dotted(capability: object) -> str:
    """A compute capability as NVIDIA writes it: ``8.6`` for ``86`` and ``8.6``, ``9.0a`` for ``90a``."""
    digits = str(capability).replace(".", "")
    number = digits.rstrip("a")
    return f"{number[:-1]}.{number[-1:]}{digits[len(number) :]}"


def require_linux(target: Target, hint: str) -> None:
    """NVIDIA's wheels are taken for Linux on x86-64 alone; ``hint`` says why. Raises ``TargetError``."""
    require_platform(target, os="linux", architectures=("x86_64",), libc="glibc", hint=hint)
