"""The foundry: reduced ONNX Runtimes, linked from a kernel archive."""
