"""Bundles for Linux on x86-64: a reduced ONNX Runtime, an ORT-format model and a frozen runner."""
