"""Texts that bundles are judged on, beside the 200 that are published: strange ones, long ones, and ones that nobody knew before."""
