"""A form of package, registered: ``edgepack bundle --as acme``."""

from collections.abc import Iterable

from edgepack import api


@api.hookimpl
def edgepack_specs() -> Iterable[api.Spec]:
    return [
        api.Spec(
            axis="package",
            name="acme",
            summary="a zip archive",
            make=api.lazy("edgepack_acme.package:create"),
        )
    ]
