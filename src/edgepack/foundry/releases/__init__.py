"""What edgepack knows of each ONNX Runtime release: one room per release."""
