"""The wheels that a bundle's libraries come from, by their content; they do not depend on the Python that a wheel is for."""

from __future__ import annotations

from edgepack.api import Wheel

ONNXRUNTIME_GPU = Wheel(
    name="onnxruntime-gpu",
    version="1.31.1",
    sha256="e26c475fe361b2015f45b4b824bd13f0bb20204e59b62814e6f0acd5f3d491a6",
    size=255_560_985,
    python="cp311",
    platform="manylinux_2_28_x86_64",
)
"""CUDA 13; without cuDNN, cuFFT and NVRTC as long as no operator asks for them (since 1.28 to 1.31)."""

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
CUDA = "13.0"
"""What the driver must know: later 13.x run on it too (CUDA's minor version compatibility)."""
