"""What plugins may import beyond ``edgepack.api``, to take runtimes from elsewhere or to make them.

- Wheels: ``wheel_files`` by their content, ``closure_of`` for the shared libraries that have to go along, ``system_libraries``
  for those of this machine, ``RuntimeFolder`` for all of them with their licences.
- The model for a runner that is not ours: ``usage_of``, ``tokenizer_cases``, ``golden_document``.
- Tables for the terminal: ``table``, ``add_row``. Data kept as TOML: ``load_toml``, ``read_table``.
- The foundry: ``fetch_sources``, ``find_emulator``, ``check_isa``.

It follows what ONNX Runtime and its compilers want, and may change with them from one release to the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgepack.api.names import lookup

if TYPE_CHECKING:
    from edgepack.bundle.golden import golden_document as golden_document
    from edgepack.bundle.usage import usage_of as usage_of
    from edgepack.fetch.wheels import Wheel as Wheel
    from edgepack.fetch.wheels import wheel_file as wheel_file
    from edgepack.fetch.wheels import wheel_files as wheel_files
    from edgepack.files.elf import needed_libraries as needed_libraries
    from edgepack.files.elf import opened_libraries as opened_libraries
    from edgepack.files.elf import soname as soname
    from edgepack.files.elf import unused_libraries as unused_libraries
    from edgepack.files.shared_libraries import Closure as Closure
    from edgepack.files.shared_libraries import closure_of as closure_of
    from edgepack.foundry.proof.emulator import find_emulator as find_emulator
    from edgepack.foundry.releases.known import check_isa as check_isa
    from edgepack.foundry.releases.known import fetch_sources as fetch_sources
    from edgepack.foundry.web.emscripten import fetch_web_toolchain as fetch_web_toolchain
    from edgepack.foundry.web.prove import prove_web as prove_web
    from edgepack.foundry.web.reduce import reduce_web_runtime as reduce_web_runtime
    from edgepack.foundry.web.stock import onnxruntime_web as onnxruntime_web
    from edgepack.foundry.web.stock import stock_web_runtime as stock_web_runtime
    from edgepack.npm import find_node as find_node
    from edgepack.npm import has_node as has_node
    from edgepack.npm import npm_package as npm_package
    from edgepack.runner.runtime_folder import RuntimeFolder as RuntimeFolder
    from edgepack.runner.runtime_folder import onnxruntime_files as onnxruntime_files
    from edgepack.runner.system_libraries import SystemLibrary as SystemLibrary
    from edgepack.runner.system_libraries import system_libraries as system_libraries
    from edgepack.runner.tokenizer.tables import tokenizer_cases as tokenizer_cases
    from edgepack.tables import Number as Number
    from edgepack.tables import add_row as add_row
    from edgepack.tables import table as table
    from edgepack.tools import find as find
    from edgepack.tools import run_tool as run_tool
    from edgepack.typed import load_toml as load_toml
    from edgepack.typed import read_table as read_table

HOMES = {
    "edgepack.bundle.golden": ("golden_document",),
    "edgepack.bundle.usage": ("usage_of",),
    "edgepack.fetch.wheels": ("Wheel", "wheel_file", "wheel_files"),
    "edgepack.files.elf": ("needed_libraries", "opened_libraries", "soname", "unused_libraries"),
    "edgepack.files.shared_libraries": ("Closure", "closure_of"),
    "edgepack.foundry.proof.emulator": ("find_emulator",),
    "edgepack.foundry.releases.known": ("check_isa", "fetch_sources"),
    "edgepack.foundry.web.emscripten": ("fetch_web_toolchain",),
    "edgepack.foundry.web.prove": ("prove_web",),
    "edgepack.foundry.web.reduce": ("reduce_web_runtime",),
    "edgepack.foundry.web.stock": ("onnxruntime_web", "stock_web_runtime"),
    "edgepack.npm": ("find_node", "has_node", "npm_package"),
    "edgepack.runner.runtime_folder": ("RuntimeFolder", "onnxruntime_files"),
    "edgepack.runner.system_libraries": ("SystemLibrary", "system_libraries"),
    "edgepack.runner.tokenizer.tables": ("tokenizer_cases",),
    "edgepack.tables": ("Number", "add_row", "table"),
    "edgepack.tools": ("find", "run_tool"),
    "edgepack.typed": ("load_toml", "read_table"),
}
"""Module → what is said there."""
__all__ = sorted(name for names in HOMES.values() for name in names)

if not TYPE_CHECKING:
    # Hidden from type checkers, who would take any name for granted.
    __getattr__ = lookup(__name__, HOMES)
