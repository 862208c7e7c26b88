"""NomicBert, the architecture of nomic-embed-text, from its weights and without PyTorch."""

from collections.abc import Iterable

from edgepack.api import Spec, hookimpl


def make() -> object:
    from edgepack_nomic.nomic_bert import write_nomic_bert

    return write_nomic_bert


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [Spec(axis="architecture", name="nomic_bert", summary="nomic-embed-text v1 and v1.5", make=make)]
