"""Bundles for browsers as npm packages: ``edgepack bundle --as npm``."""

from collections.abc import Iterable

from edgepack.api import Spec, hookimpl, lazy


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(
            axis="package",
            name="npm",
            summary="an npm package: encode() in Node, Bun, Deno and workerd, needs no other package",
            make=lazy("edgepack_npm.package:create_packager"),
        )
    ]
