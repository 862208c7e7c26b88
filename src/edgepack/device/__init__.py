"""Devices: ways to them, a bundle verified on them, and the record of it."""
