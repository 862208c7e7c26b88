"""Bundles in registries of container images: ``edgepack push`` and ``edgepack pull``."""
