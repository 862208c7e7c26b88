"""A price list, registered: reports reckon with it beside edgepack's own."""

from collections.abc import Iterable
from importlib.abc import Traversable
from importlib.resources import files

from edgepack import api


def make() -> Traversable:
    """The table of providers."""
    return files("edgepack_acme") / "prices.toml"


@api.hookimpl
def edgepack_specs() -> Iterable[api.Spec]:
    return [api.Spec(axis="prices", name="acme", summary="our contract", make=make)]
