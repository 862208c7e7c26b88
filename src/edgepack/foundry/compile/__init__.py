"""The kernel archive: ONNX Runtime compiled object by object."""
