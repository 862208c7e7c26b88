"""What plugins may import to write a builder; everything else is edgepack's own business and may change.

``Spec`` and ``hookimpl`` register a builder, ``TargetBuilder`` is what it has to be, ``BuildContext`` what it is given; it takes
and returns the records. ``prepare_model``, ``reduce_runtime`` and the runners are what builders share. A builder whose
runtime comes in wheels, or is compiled for a platform of its own, finds more in ``edgepack.api.kit``. What passes, packages
and the other axes want is in ``edgepack.api.axes``.

Importing this is light: a name is looked up where it lives when it is first asked for.
"""

from edgepack.api.names import homes, listing, lookup

HOMES = homes(__file__)
__all__ = sorted(HOMES)
__getattr__ = lookup(__name__, HOMES)
__dir__ = listing(HOMES)
