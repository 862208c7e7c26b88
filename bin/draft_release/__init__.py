"""Another release of ONNX Runtime: what of the known release's room still finds its place in sources that a user brings."""
