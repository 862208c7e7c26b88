"""The wheels of CUDA's own libraries, for bundles that hold them, by their content."""

from __future__ import annotations

from edgepack.api.kit import Wheel

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
