"""Bundles for GPUs: whether the device will do, and the execution provider."""
