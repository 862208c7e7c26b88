"""The foundry for WebAssembly."""
