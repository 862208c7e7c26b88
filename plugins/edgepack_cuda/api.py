"""What other plugins may import of this one: ONNX Runtime for NVIDIA's GPUs, its CUDA provider, CUDA's terms."""

from edgepack_cuda.nvidia import CUDA as CUDA
from edgepack_cuda.nvidia import DRIVER as DRIVER
from edgepack_cuda.nvidia import GPU_FILES as GPU_FILES
from edgepack_cuda.nvidia import HOST as HOST
from edgepack_cuda.nvidia import ONNXRUNTIME_GPU as ONNXRUNTIME_GPU
from edgepack_cuda.nvidia import TENSORRT_PROVIDER as TENSORRT_PROVIDER
from edgepack_cuda.nvidia import cuda_terms as cuda_terms
from edgepack_cuda.nvidia import dotted as dotted
from edgepack_cuda.nvidia import missing as missing
from edgepack_cuda.nvidia import require_linux as require_linux
from edgepack_cuda.runtime import cuda_host as cuda_host
