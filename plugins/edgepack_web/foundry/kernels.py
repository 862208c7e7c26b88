"""Kernels of MLAS that are written anew for WebAssembly, in the place of upstream's."""

from collections.abc import Callable
from importlib import resources

from edgepack.api.kit import Patch
from edgepack.foundry.patch import RuntimeRequest

FOLDER = "core/mlas/lib"


def kernel_sources() -> dict[str, str]:
    """File name, as upstream's → text."""
    folder = resources.files("edgepack_web.foundry") / "data"
    return {
        file.name: file.read_text(encoding="utf-8") for file in folder.iterdir() if file.name.endswith(".cpp")
    }


def kernel_patches() -> tuple[Patch, ...]:
    """A patch for each; what they compute is what upstream's compute."""
    return tuple(
        Patch(
            name=f"{name} for WebAssembly",
            file=f"{FOLDER}/{name}",
            units=f"onnxruntime_mlas/*{FOLDER}/{name}",
            rewrite=_always(text),
        )
        for name, text in sorted(kernel_sources().items())
    )


def _always(text: str) -> Callable[[str, RuntimeRequest], str]:
    return lambda _, __: text
