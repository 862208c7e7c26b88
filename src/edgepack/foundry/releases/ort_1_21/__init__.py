"""All that knows ONNX Runtime 1.21: pinned sources, build settings, symbol indexes, patches."""
