"""Subgraphs fused into the operators that ONNX Runtime has kernels for."""
