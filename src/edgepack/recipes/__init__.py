"""Recipes: how a model is made small."""
