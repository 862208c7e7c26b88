"""A place that models come from, registered: ``--model acme://NAME``."""

from collections.abc import Iterable

from edgepack import api


@api.hookimpl
def edgepack_specs() -> Iterable[api.Spec]:
    return [
        api.Spec(
            axis="source",
            name="acme",
            summary="models on our server",
            make=api.lazy("edgepack_acme.source:Shelf"),
        )
    ]
