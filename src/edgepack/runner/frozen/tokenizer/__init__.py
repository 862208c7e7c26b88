"""Texts to token ids: Hugging Face's tokenizers, or the bundle's compiled one."""
