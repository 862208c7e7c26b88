"""Bundles for Linux as Debian packages: ``edgepack bundle --as deb``."""

from collections.abc import Iterable

from edgepack.api import Spec, hookimpl, lazy


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(
            axis="package",
            name="deb",
            summary="a Debian package: the program on PATH, a systemd unit where it has a server",
            make=lazy("edgepack_deb.package:create_packager"),
        )
    ]
