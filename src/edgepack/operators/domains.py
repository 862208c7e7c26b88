"""The domains of operators, as upstream's sources name them."""

DOMAINS = {
    "kOnnxDomain": "ai.onnx",
    "kMLDomain": "ai.onnx.ml",
    "kMSDomain": "com.microsoft",
    "kPytorchAtenDomain": "org.pytorch.aten",
    "kMSExperimentalDomain": "com.microsoft.experimental",
    "kMSNchwcDomain": "com.microsoft.nchwc",
    "kMSInternalNHWCDomain": "com.ms.internal.nhwc",
    "kMSDmlDomain": "com.microsoft.dml",
}
"""Upstream's constants (include/onnxruntime/core/graph/constants.h) → domains as models and configs write them."""
