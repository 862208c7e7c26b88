"""Reduced ONNX Runtimes by themselves, without a bundle around them."""
