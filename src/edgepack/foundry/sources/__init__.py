"""The source tree of ONNX Runtime: fetched, unpacked, patched."""
