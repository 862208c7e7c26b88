"""Models: found, exported, pooled, fused, converted."""
