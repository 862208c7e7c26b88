from edgepack.library import Bundle as Bundle
from edgepack.library import Quantized as Quantized
from edgepack.library import build as build
from edgepack.library import bundle as bundle
from edgepack.library import check_signature as check_signature
from edgepack.library import inspect as inspect
from edgepack.library import quantize as quantize
from edgepack.library import report as report
from edgepack.library import sign as sign
from edgepack.library import verify as verify

__version__: str
