"""ONNX graphs: looked at, edited, cleaned, written."""
