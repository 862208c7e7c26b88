"""Token ids to vectors: ONNX Runtime, the model loaded in it, batches."""
