from edgepack.python_api import Bundle as Bundle
from edgepack.python_api import Quantized as Quantized
from edgepack.python_api import build as build
from edgepack.python_api import bundle as bundle
from edgepack.python_api import check_signature as check_signature
from edgepack.python_api import inspect as inspect
from edgepack.python_api import quantize as quantize
from edgepack.python_api import report as report
from edgepack.python_api import sign as sign
from edgepack.python_api import verify as verify

PYTHONS: tuple[str, ...]
__version__: str

def wrong_python(version: tuple[int, int] = ...) -> tuple[str, str] | None: ...
def _common_kernels(system: str, machine: str, processor: str = ...) -> str | None: ...
