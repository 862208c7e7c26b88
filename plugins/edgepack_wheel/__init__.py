"""Bundles for Linux as Python wheels: ``edgepack bundle --as wheel``."""

from collections.abc import Iterable

from edgepack.api import Spec, hookimpl, lazy


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(
            axis="package",
            name="wheel",
            summary="a Python wheel: pip installs it, encode() gives vectors, needs no other package",
            make=lazy("edgepack_wheel.package:create_packager"),
        )
    ]
