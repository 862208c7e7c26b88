"""edgepack turns a text-embedding model into something a device can run, and proves that it is right."""

__version__ = "0.1.0"
