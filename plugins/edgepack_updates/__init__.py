"""Updates of bundles: ``edgepack diff``, ``delta`` and ``apply``, and Mender artifacts, ``edgepack bundle --as mender``."""

from collections.abc import Iterable

from edgepack.api import Spec, hookimpl, lazy


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(
            axis="package",
            name="mender",
            summary="a Mender artifact: the archive as its payload, for an update module that can roll back",
            make=lazy("edgepack_updates.mender:create_packager"),
        )
    ]
