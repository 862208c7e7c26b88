"""What plugins may import for axes other than builders, beside ``edgepack.api``.

- Passes: ``Transform`` is what one has to be; ``Note`` and ``Material`` are what it is given.
- Packages: ``Packager`` is what one has to be; ``bundle_entries``, ``write_tarball`` and ``write_tgz`` for archives with the same bytes.
- Sources: ``Source`` is what one has to be, ``RemoteModel`` what it gives; ``ask`` and ``download`` reach servers as edgepack does.
- Architectures: ``Architecture`` is what one has to be; what it writes with is in ``edgepack.api.graphs``.
- Checks: ``Check`` is what one has to be. Reports: ``ReportRows``, of which the host makes a ``Section``.
- Stores: ``OpenStore`` is what one has to be, ``BlobStore`` what it gives. Executors: ``StartExecutor``.
- Devices: ``OpenDevice`` is what one has to be, ``Transport`` what it gives.
- Platforms: ``LinuxPlatform`` is one for a ``Processor`` of Linux that edgepack does not know; ``RuntimePlatform`` is what any
  other has to be, ``RuntimeOptions`` what it is given; its parts are in ``edgepack.api.kit``.
"""

from edgepack.api.names import homes, listing, lookup

HOMES = homes(__file__)
__all__ = sorted(HOMES)
__getattr__ = lookup(__name__, HOMES)
__dir__ = listing(HOMES)
