"""Linux with musl: programs that need no C library of their device. Builder `linux` makes the bundles."""

from collections.abc import Iterable
from importlib.resources import files
from importlib.resources.abc import Traversable

from edgepack.api import Spec, hookimpl, lazy


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(
            axis="platform",
            name=f"linux-musl-{arch}",
            summary=f"static programs for Linux on {arch}, with musl inside",
            make=lazy(f"edgepack_musl.platforms:{arch}"),
        )
        for arch in ("x86_64", "aarch64", "armv7l")
    ]


@hookimpl
def edgepack_targets() -> Iterable[Traversable]:
    return [files(__name__) / f"linux-{name}-musl.toml" for name in ("x86", "arm64", "armv7")]
