"""The wheels that everything comes from, by their content.

The libraries in them do not depend on the Python that a wheel is for, so that one file serves every building machine;
only TensorRT's Python module does, which builds engines and does not get into the bundle.
"""

import sys

from edgepack.api import MissingToolError
from edgepack.api.kit import Wheel

MANYLINUX = "manylinux_2_28_x86_64"

PROVIDER = Wheel(
    name="onnxruntime-ep-nv-tensorrt-rtx-cu13",
    version="0.5.0",
    sha256="32f575c633d171b4edf4b53d3bb22b72a6c9c0a850d2982ce9a788a5d40d3298",
    size=146_476_965,
    platform=MANYLINUX,
)
"""The execution provider as a plugin, TensorRT-RTX 1.7.1.116 and CUDA's runtime."""

ONNXRUNTIME = Wheel(
    name="onnxruntime",
    version="1.24.4",
    sha256="e54ad52e61d2d4618dcff8fa1480ac66b24ee2eab73331322db1049f11ccf330",
    size=17_222_993,
    python="cp311",
    platform=MANYLINUX,
)
"""The oldest release line that the provider takes (its own minimum is 1.24), and 7 MB smaller than 1.31."""

TENSORRT_RTX = "1.7.1"
BINDINGS_VERSION = "1.7.1.116"
_BINDINGS = {
    "cp311": ("6a4d2bf39a98b71238046b9a9dd22d0e6b146be90cd56ac09f1e068933e4e18d", 1_232_170),
    "cp312": ("52fb62cb86b922637848f5971b53153bf2e091c33948fa89efd215abaa52b044", 1_227_705),
    "cp313": ("f15cdb560cf2d926405789985509f5496e378ba457a7fb657592ce7f7311c0ff", 1_227_578),
}


def bindings(python: tuple[int, int] = (sys.version_info[0], sys.version_info[1])) -> Wheel:
    """TensorRT's Python module for a Python; raises ``MissingToolError`` for one that it is not made for."""
    tag = f"cp{python[0]}{python[1]}"
    if tag not in _BINDINGS:
        raise MissingToolError(
            f"engines are built by TensorRT's Python module, which has no pinned wheel for Python {python[0]}.{python[1]}",
            hint=f"build with Python 3.11 to 3.13 ({', '.join(_BINDINGS)})",
        )
    sha256, size = _BINDINGS[tag]
    return Wheel(
        name="tensorrt-rtx-cu13-bindings",
        version=BINDINGS_VERSION,
        sha256=sha256,
        size=size,
        python=tag,
        platform=MANYLINUX,
    )
