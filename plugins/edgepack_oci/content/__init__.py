"""What is pushed: layers, and the documents over them."""
