"""What plugins may import beyond ``edgepack.api``: to take runtimes from elsewhere, to make them, to add commands.

- ELF files: ``read_elf``; ``ELF64`` to write their tables.
- Wheels: ``wheel_files`` by their content, ``closure_of`` for the shared libraries that have to go along, ``system_libraries``
  for those of this machine, ``RuntimeFolder`` for all of them with their licences.
- A runner that is not ours: ``usage_of``, ``tokenizer_cases``, ``golden_document``.
- The foundry, for a platform that it does not compile for by itself: a ``Toolchain`` with its ``Patch``es, ``open_archive``,
  ``link_reduced``, and a ``RuntimePlatform`` for `edgepack runtime`.
- Commands: ``host_context`` gives what a builder gets, ``common_options`` are those that every command has.
- Tables for the terminal: ``table``, ``add_row``. Data kept as TOML: ``load_toml``, ``read_table``.

It follows what ONNX Runtime and its compilers want, and may change with them from one release to the next.
"""

from typing import TYPE_CHECKING

from edgepack.api.names import lookup

if TYPE_CHECKING:
    from edgepack.bundle.golden import golden_document as golden_document
    from edgepack.bundle.usage import usage_of as usage_of
    from edgepack.cli.options import common_options as common_options
    from edgepack.cli.options import offline_option as offline_option
    from edgepack.cli.output import print_json as print_json
    from edgepack.errors import DownloadError as DownloadError
    from edgepack.errors import HashMismatchError as HashMismatchError
    from edgepack.fetch.debian import Package as Package
    from edgepack.fetch.debian import fetch_packages as fetch_packages
    from edgepack.fetch.download import require_online as require_online
    from edgepack.fetch.unpack import unpack_download as unpack_download
    from edgepack.fetch.unpack import unpack_matching as unpack_matching
    from edgepack.fetch.wheels import Wheel as Wheel
    from edgepack.fetch.wheels import wheel_file as wheel_file
    from edgepack.fetch.wheels import wheel_files as wheel_files
    from edgepack.files.elf import Layout as Layout
    from edgepack.files.elf import needed_libraries as needed_libraries
    from edgepack.files.elf import opened_libraries as opened_libraries
    from edgepack.files.elf import soname as soname
    from edgepack.files.elf import unused_libraries as unused_libraries
    from edgepack.files.elf_reader import ELF64 as ELF64
    from edgepack.files.elf_reader import Elf as Elf
    from edgepack.files.elf_reader import ElfError as ElfError
    from edgepack.files.elf_reader import ElfSection as ElfSection
    from edgepack.files.elf_reader import ElfSegment as ElfSegment
    from edgepack.files.elf_reader import read_elf as read_elf
    from edgepack.files.shared_libraries import Closure as Closure
    from edgepack.files.shared_libraries import closure_of as closure_of
    from edgepack.files.store import key_of as key_of
    from edgepack.foundry.compile.archive import KernelArchive as KernelArchive
    from edgepack.foundry.compile.archive import open_archive as open_archive
    from edgepack.foundry.explain.sizes import Form as Form
    from edgepack.foundry.link.composition import COMPOSITION as COMPOSITION
    from edgepack.foundry.link.composition import LINKER as LINKER
    from edgepack.foundry.link.composition import write_composition as write_composition
    from edgepack.foundry.link.library import provided as provided
    from edgepack.foundry.link.licenses import write_runtime_licenses as write_runtime_licenses
    from edgepack.foundry.link.reduce import Outside as Outside
    from edgepack.foundry.link.reduce import Reduced as Reduced
    from edgepack.foundry.link.reduce import link_reduced as link_reduced
    from edgepack.foundry.patch import ALLOCATION_PLANNER as ALLOCATION_PLANNER
    from edgepack.foundry.patch import PROTOBUF_MESSAGES as PROTOBUF_MESSAGES
    from edgepack.foundry.patch import Patch as Patch
    from edgepack.foundry.patch import RuntimeRequest as RuntimeRequest
    from edgepack.foundry.proof.emulator import find_emulator as find_emulator
    from edgepack.foundry.proof.prove import QUANTIZED_TOLERANCE as QUANTIZED_TOLERANCE
    from edgepack.foundry.proof.prove import TOLERANCE as TOLERANCE
    from edgepack.foundry.proof.prove import VOCABULARY as VOCABULARY
    from edgepack.foundry.proof.prove import expected_vectors as expected_vectors
    from edgepack.foundry.proof.prove import require_near as require_near
    from edgepack.foundry.proof.prove import token_ids as token_ids
    from edgepack.foundry.release import Release as Release
    from edgepack.foundry.releases.known import RELEASE as RELEASE
    from edgepack.foundry.releases.known import check_isa as check_isa
    from edgepack.foundry.releases.known import fetch_sources as fetch_sources
    from edgepack.foundry.sources.pinned import Archive as Archive
    from edgepack.foundry.sources.pinned import fetch_archives as fetch_archives
    from edgepack.foundry.sources.pinned import read_archive as read_archive
    from edgepack.foundry.sources.pinned import store_path as store_path
    from edgepack.foundry.toolchains.cmake import compiler_script as compiler_script
    from edgepack.foundry.toolchains.libcxx import LOCALE as LOCALE
    from edgepack.foundry.toolchains.libcxx import ZIG as ZIG
    from edgepack.foundry.toolchains.libcxx import needs_whole_runtime as needs_whole_runtime
    from edgepack.foundry.toolchains.libcxx import small_locale as small_locale
    from edgepack.foundry.toolchains.linkmap import Piece as Piece
    from edgepack.foundry.toolchains.symbols import Symbols as Symbols
    from edgepack.foundry.toolchains.symbols import archive_symbols as archive_symbols
    from edgepack.foundry.toolchains.toolchain import HostLibraries as HostLibraries
    from edgepack.foundry.toolchains.toolchain import Toolchain as Toolchain
    from edgepack.foundry.toolchains.zig import zig_program as zig_program
    from edgepack.foundry.units import Unit as Unit
    from edgepack.operators.config import format_config as format_config
    from edgepack.operators.config import union as union
    from edgepack.plugins.context import host_context as host_context
    from edgepack.records.runtime import LevelProof as LevelProof
    from edgepack.runner.runtime_folder import RuntimeFolder as RuntimeFolder
    from edgepack.runner.runtime_folder import onnxruntime_files as onnxruntime_files
    from edgepack.runner.system_libraries import SystemLibrary as SystemLibrary
    from edgepack.runner.system_libraries import system_libraries as system_libraries
    from edgepack.runner.tokenizer.tables import tokenizer_cases as tokenizer_cases
    from edgepack.runtimes.platform import RuntimeOptions as RuntimeOptions
    from edgepack.runtimes.platform import RuntimePlatform as RuntimePlatform
    from edgepack.tables import Number as Number
    from edgepack.tables import add_row as add_row
    from edgepack.tables import table as table
    from edgepack.tools import find as find
    from edgepack.tools import run_tool as run_tool
    from edgepack.typed import load_toml as load_toml
    from edgepack.typed import read_table as read_table
    from edgepack.verify.compatibility import Fit as Fit

HOMES = {
    "edgepack.bundle.golden": ("golden_document",),
    "edgepack.bundle.usage": ("usage_of",),
    "edgepack.cli.options": ("common_options", "offline_option"),
    "edgepack.cli.output": ("print_json",),
    "edgepack.errors": ("DownloadError", "HashMismatchError"),
    "edgepack.fetch.debian": ("Package", "fetch_packages"),
    "edgepack.fetch.download": ("require_online",),
    "edgepack.fetch.wheels": ("Wheel", "wheel_file", "wheel_files"),
    "edgepack.fetch.unpack": ("unpack_download", "unpack_matching"),
    "edgepack.files.elf": ("Layout", "needed_libraries", "opened_libraries", "soname", "unused_libraries"),
    "edgepack.files.elf_reader": ("ELF64", "Elf", "ElfError", "ElfSection", "ElfSegment", "read_elf"),
    "edgepack.files.shared_libraries": ("Closure", "closure_of"),
    "edgepack.files.store": ("key_of",),
    "edgepack.foundry.compile.archive": ("KernelArchive", "open_archive"),
    "edgepack.foundry.explain.sizes": ("Form",),
    "edgepack.foundry.link.composition": ("COMPOSITION", "LINKER", "write_composition"),
    "edgepack.foundry.link.library": ("provided",),
    "edgepack.foundry.link.licenses": ("write_runtime_licenses",),
    "edgepack.foundry.link.reduce": ("Outside", "Reduced", "link_reduced"),
    "edgepack.foundry.patch": ("ALLOCATION_PLANNER", "PROTOBUF_MESSAGES", "Patch", "RuntimeRequest"),
    "edgepack.foundry.proof.emulator": ("find_emulator",),
    "edgepack.foundry.proof.prove": (
        "QUANTIZED_TOLERANCE",
        "TOLERANCE",
        "VOCABULARY",
        "expected_vectors",
        "require_near",
        "token_ids",
    ),
    "edgepack.foundry.release": ("Release",),
    "edgepack.foundry.releases.known": ("RELEASE", "check_isa", "fetch_sources"),
    "edgepack.foundry.sources.pinned": ("Archive", "fetch_archives", "read_archive", "store_path"),
    "edgepack.foundry.toolchains.cmake": ("compiler_script",),
    "edgepack.foundry.toolchains.libcxx": ("LOCALE", "ZIG", "needs_whole_runtime", "small_locale"),
    "edgepack.foundry.toolchains.linkmap": ("Piece",),
    "edgepack.foundry.toolchains.symbols": ("Symbols", "archive_symbols"),
    "edgepack.foundry.toolchains.toolchain": ("HostLibraries", "Toolchain"),
    "edgepack.foundry.toolchains.zig": ("zig_program",),
    "edgepack.foundry.units": ("Unit",),
    "edgepack.operators.config": ("format_config", "union"),
    "edgepack.plugins.context": ("host_context",),
    "edgepack.records.runtime": ("LevelProof",),
    "edgepack.runner.runtime_folder": ("RuntimeFolder", "onnxruntime_files"),
    "edgepack.runner.system_libraries": ("SystemLibrary", "system_libraries"),
    "edgepack.runner.tokenizer.tables": ("tokenizer_cases",),
    "edgepack.tables": ("Number", "add_row", "table"),
    "edgepack.runtimes.platform": ("RuntimeOptions", "RuntimePlatform"),
    "edgepack.tools": ("find", "run_tool"),
    "edgepack.typed": ("load_toml", "read_table"),
    "edgepack.verify.compatibility": ("Fit",),
}
"""Module → what is said there."""
__all__ = sorted(name for names in HOMES.values() for name in names)

if not TYPE_CHECKING:
    # Hidden from type checkers, who would take any name for granted.
    __getattr__ = lookup(__name__, HOMES)
