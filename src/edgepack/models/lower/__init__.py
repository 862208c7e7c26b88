"""Ready-made ONNX files of other exporters: loaded, lowered to what ONNX Runtime 1.21.0 runs, and made one kind of model."""
