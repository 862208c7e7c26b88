"""Pickles of strangers as plain data."""
