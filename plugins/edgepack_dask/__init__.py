"""A project's bundles made by Dask's workers: ``edgepack build --executor dask --scheduler ADDRESS``."""

from edgepack.api import Spec, hookimpl, lazy


@hookimpl
def edgepack_specs() -> list[Spec]:
    return [
        Spec(
            axis="executor",
            name="dask",
            summary="the workers of a Dask scheduler, or of one on this machine",
            make=lazy("edgepack_dask.executor:starter"),
        )
    ]
