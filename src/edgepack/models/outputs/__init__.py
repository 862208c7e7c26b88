"""Models that give something else than one vector a text, read: sparse encoders, multi-vector encoders, and both in one."""
