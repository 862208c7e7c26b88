"""Linux on riscv64: the processor, and a target. Builder `linux` makes the bundles."""

from collections.abc import Iterable
from importlib.resources import files
from importlib.resources.abc import Traversable

from edgepack.api import Spec, hookimpl, lazy


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(
            axis="platform",
            name="linux-riscv64",
            summary="shared libraries and programs for Linux on riscv64 (RV64GC)",
            make=lazy("edgepack_riscv64.processor:platform"),
        )
    ]


@hookimpl
def edgepack_targets() -> Iterable[Traversable]:
    return [files(__name__) / "linux-riscv64-min.toml"]
