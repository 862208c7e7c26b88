"""Whether a bundle's own vectors are right: the gate, quality, tokens."""
