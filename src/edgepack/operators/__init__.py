"""Operator kernels with their types, as ONNX Runtime's reduced-build config names them."""
