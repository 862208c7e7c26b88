"""edgepack turns a text-embedding model into something a device can run, and proves that it is right.

``edgepack.bundle("./my-model", target="linux-x86-min")`` does what the command of that name does; ``edgepack.python_api`` says
what there is. Importing this is light: each function imports what it needs when it is called.
"""

from importlib import import_module

__version__ = "0.1.0"
__all__ = [
    "Bundle",
    "Quantized",
    "build",
    "bundle",
    "check_device",
    "check_signature",
    "inspect",
    "prove",
    "quantize",
    "report",
    "sign",
    "verify",
    "verify_on",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'edgepack' has no attribute {name!r}")
    return getattr(import_module("edgepack.python_api"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
