"""Freezing the Python runner: PyInstaller, what is left out, and the tests that each freeze must pass."""
