"""Encoders that are not quite BERT, from their weights and without PyTorch: new GTE, ALBERT, DeBERTa v2 and v3."""

from collections.abc import Iterable

from edgepack.api import Spec, hookimpl

GTE = "gte-multilingual, gte v1.5 and snowflake-arctic-embed-m v2"


def make_albert() -> object:
    from edgepack_encoders.albert import write_albert

    return write_albert


def make_deberta() -> object:
    from edgepack_encoders.deberta import write_deberta

    return write_deberta


def make_gte() -> object:
    from edgepack_encoders.gte import write_gte

    return write_gte


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(
            axis="architecture", name="albert", summary="ALBERT: layers that share weights", make=make_albert
        ),
        Spec(axis="architecture", name="deberta-v2", summary="DeBERTa v2 and v3", make=make_deberta),
        Spec(axis="architecture", name="gte", summary=f"{GTE}, as transformers writes them", make=make_gte),
        Spec(axis="architecture", name="new", summary=GTE, make=make_gte),
    ]
