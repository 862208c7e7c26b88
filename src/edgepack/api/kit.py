"""What plugins may import beyond ``edgepack.api``: to take runtimes from elsewhere, to make them, to add commands.

- ELF files: ``read_elf``; ``ELF64`` to write their tables.
- Wheels: ``wheel_files`` by their content, ``closure_of`` for the shared libraries that have to go along, ``system_libraries``
  for those of this machine, ``RuntimeFolder`` for all of them with their licences. ``pack_wheel`` writes one of ``WheelMember``s.
- A runner that is not ours: ``usage_of``, ``tokenizer_cases``, ``golden_document``.
- The foundry, for a platform that it does not compile for by itself: a ``Toolchain`` with its ``Patch``es, ``open_archive``,
  ``link_reduced``; ``edgepack.api.axes`` has the ``RuntimePlatform`` for `edgepack runtime`.
- Commands: ``host_context`` gives what a builder gets, ``common_options`` are those that every command has.
- Finished bundles: ``open_bundle`` checks one, ``unpack_bundle`` and ``unpack_layers`` take one out of archives, ``placed_folder`` is a folder
  that appears whole or not at all, ``require_signed`` asks for a signature, ``runner_for`` runs a program as `edgepack verify` would, where
  ``may_run`` allows it; ``record_files`` are what devices measured of it, ``lay_record_files`` lays them beside it.
- HTTP beyond downloads: a ``client``, ``retrying`` and what it takes for a failure that may pass, ``TryAgain``; ``fetch_file`` keeps what it
  fetches in the store.
- Tables for the terminal: ``table``, ``add_row``. Data kept as TOML: ``load_toml``, ``read_table``.

It follows what ONNX Runtime and its compilers want, and may change with them from one release to the next.
"""

from edgepack.api.names import homes, listing, lookup

HOMES = homes(__file__)
__all__ = sorted(HOMES)
__getattr__ = lookup(__name__, HOMES)
__dir__ = listing(HOMES)
