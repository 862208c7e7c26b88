"""What plugins may import beyond ``edgepack.api``: to take runtimes from elsewhere, to make them, to add commands.

- ELF files: ``read_elf``.
- Wheels: ``wheel_files`` by their content, ``closure_of`` for the shared libraries that have to go along, ``system_libraries``
  for those of this machine, ``RuntimeFolder`` for all of them with their licences.
- A runner that is not ours: ``usage_of``, ``tokenizer_cases``.
- The foundry, for a platform that it does not compile for by itself: a ``Toolchain`` with its ``Patch``es, ``fetch_sources``;
  ``edgepack.api.axes`` has the ``RuntimePlatform`` for `edgepack runtime`.
- Commands: ``host_context`` gives what a builder gets, ``common_options`` are those that every command has.
- Finished bundles: ``open_bundle`` checks one, ``unpack_bundle`` takes one out of an archive, ``require_signed`` asks for a signature,
  ``word_of_bundle`` says whose word its report is.
- Tables for the terminal: ``table``, ``add_row``. Data kept as TOML: ``load_toml``, ``read_table``.

This is interface 3. Names of the one before are found for one release, with a warning (``edgepack.api.former``).
"""

from edgepack.api.names import former, homes, listing, lookup

HOMES = homes(__file__)
__all__ = sorted(HOMES)
INTERFACE = 3
__getattr__ = lookup(__name__, HOMES, former)
__dir__ = listing(HOMES)
