"""Linux on 32-bit ARM: the processor, and a target. Builder `linux` makes the bundles."""

from collections.abc import Iterable
from importlib.resources import files
from importlib.resources.abc import Traversable

from edgepack.api import Spec, hookimpl, lazy


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(
            axis="platform",
            name="linux-armv7l",
            summary="shared libraries and programs for Linux on armv7l (ARMv7-A with NEON, hard float)",
            make=lazy("edgepack_armv7.processor:platform"),
        )
    ]


@hookimpl
def edgepack_targets() -> Iterable[Traversable]:
    return [files(__name__) / "linux-armv7-min.toml"]
