"""Bundles as one file, program and all: ``edgepack bundle --as single``."""

from collections.abc import Iterable

from edgepack.api import Spec, hookimpl, lazy


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(
            axis="package",
            name="single",
            summary="one executable file: program, model and tokenizer, mapped where they lie",
            make=lazy("edgepack_single.package:create_packager"),
        )
    ]
