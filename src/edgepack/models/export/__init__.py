"""Architectures written as ONNX graphs, one module each."""
