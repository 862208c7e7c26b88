"""Mutated inputs for whatever reads what strangers wrote; ``make fuzz`` for hours, a few seconds of it in ``make test``."""
