"""What other plugins may import of this one: NVIDIA's driver, its terms, compute capabilities."""

from edgepack_cuda.nvidia import CUDA as CUDA
from edgepack_cuda.nvidia import DRIVER as DRIVER
from edgepack_cuda.nvidia import HOST as HOST
from edgepack_cuda.nvidia import cuda_terms as cuda_terms
from edgepack_cuda.nvidia import dotted as dotted
from edgepack_cuda.nvidia import missing as missing
from edgepack_cuda.nvidia import require_linux as require_linux
