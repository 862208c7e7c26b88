"""Passes: what a recipe does to a model, one module each."""
