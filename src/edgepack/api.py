"""What plugins may import; everything else is edgepack's own business and may change.

The records and errors; ``Spec`` and ``TargetBuilder`` to write a builder; ``BuildContext``, which a builder is
given; ``hookimpl`` to register; and, as functions, what builders share: preparing a model, making a reduced runtime,
freezing the runner. A builder whose runtime comes in wheels finds here what it takes: ``wheel_files`` by their content,
``closure_of`` for the libraries that have to go along, ``RuntimeFolder`` for them and their licences.

Importing this module is light: the functions import what they need when they are called.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from edgepack.context import BuildContext, Progress
from edgepack.errors import (
    BundleError,
    CannotRunHere,
    EdgepackError,
    FloorError,
    MismatchError,
    MissingToolError,
    ModelError,
    ProofError,
    TargetError,
    ToolError,
    UnsupportedModelError,
    UsageError,
)
from edgepack.fetch.wheels import Wheel, wheel_file, wheel_files
from edgepack.files.elf import SYSTEM_LIBRARIES, needed_libraries, opened_libraries, soname, unused_libraries
from edgepack.files.shared_libraries import Closure, closure_of
from edgepack.foundry.releases.ort_1_21.isa import check_isa
from edgepack.npm import NODE_HINT, find_node, has_node, npm_package
from edgepack.options import OptionTable, Renamed, read_options, require_platform
from edgepack.plugins.hookspecs import hookimpl
from edgepack.plugins.spec import API_VERSION, Spec, TargetBuilder, lazy
from edgepack.records.bundle import Bundle, Placement, RunnerArtifact
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.operators import Operator, Operators
from edgepack.records.report import Report
from edgepack.records.runtime import ExecutionProvider, LevelProof, Levels, RuntimeArtifact, RuntimeKind
from edgepack.records.target import ModelOptions, Platform, Target
from edgepack.runner.runtime_folder import RuntimeFolder, onnxruntime_files
from edgepack.runner.system_libraries import SystemLibrary
from edgepack.runner.tables import TokenizerTables
from edgepack.targets import parse_size
from edgepack.tools import find, is_installed, missing_tools
from edgepack.tools import run as run_tool

__all__ = [
    "API_VERSION",
    "NODE_HINT",
    "SYSTEM_LIBRARIES",
    "BuildContext",
    "Bundle",
    "BundleError",
    "CannotRunHere",
    "Closure",
    "EdgepackError",
    "ExecutionProvider",
    "FloorError",
    "LevelProof",
    "Levels",
    "MismatchError",
    "MissingToolError",
    "ModelError",
    "ModelOptions",
    "ModelSource",
    "Operator",
    "Operators",
    "OptionTable",
    "Placement",
    "Platform",
    "PreparedModel",
    "Progress",
    "ProofError",
    "Renamed",
    "Report",
    "RunnerArtifact",
    "RuntimeArtifact",
    "RuntimeFolder",
    "RuntimeKind",
    "Spec",
    "SystemLibrary",
    "Target",
    "TargetBuilder",
    "TargetError",
    "TokenizerTables",
    "ToolError",
    "UnsupportedModelError",
    "UsageError",
    "Wheel",
    "check_isa",
    "closure_of",
    "fetch_emulator",
    "fetch_runtime_sources",
    "fetch_web_toolchain",
    "find",
    "find_node",
    "freeze_runner",
    "golden_document",
    "has_node",
    "hookimpl",
    "is_installed",
    "lazy",
    "link_native_runner",
    "linked_runtime",
    "missing_tools",
    "needed_libraries",
    "npm_package",
    "onnxruntime_files",
    "onnxruntime_web",
    "opened_libraries",
    "parse_size",
    "prepare_model",
    "prove_web",
    "read_options",
    "reduce_runtime",
    "reduce_web_runtime",
    "require_platform",
    "run_tool",
    "soname",
    "stock_web_runtime",
    "system_libraries",
    "tokenizer_cases",
    "tokenizer_tables",
    "unused_libraries",
    "usage_of",
    "wheel_file",
    "wheel_files",
]


def prepare_model(
    source: ModelSource,
    *,
    options: ModelOptions,
    platform: Platform | None = None,
    context: BuildContext,
) -> PreparedModel:
    """Make a model small by a recipe and convert it; the result's ``needs`` are those of the finished file.

    ``platform`` lets recipes know which instruction sets the device has.
    """
    from edgepack.recipes.prepare import prepare_model

    return prepare_model(source, options=options, platform=platform, context=context)


def golden_document(model: Path, source: ModelSource) -> bytes:
    """What ``golden.json`` says of a model's file: its vectors of the golden texts, by the stock onnxruntime package.

    For a bundle with a second model; that of the first is written with the bundle.
    """
    from edgepack.bundle import golden
    from edgepack.models.reference import embed_with_onnxruntime

    return golden.golden_json(embed_with_onnxruntime(model, source, golden.TEXTS).tolist())


def reduce_runtime(
    needs: Operators,
    *,
    platform: Platform,
    kind: RuntimeKind = "minimal",
    sources: Path | None = None,
    glibc: str | None = None,
    context: BuildContext,
) -> RuntimeArtifact:
    """An ONNX Runtime library that holds just the operator kernels and types that are needed.

    ``glibc`` is the oldest C library that the library itself must run on; by default 2.28, or the platform's where that
    is older.
    """
    from edgepack.foundry.link.reduce import reduce_runtime

    return reduce_runtime(needs, platform=platform, kind=kind, sources=sources, glibc=glibc, context=context)


def reduce_web_runtime(
    needs: Operators,
    *,
    kind: RuntimeKind = "minimal",
    threads: bool = False,
    sources: Path | None = None,
    context: BuildContext,
) -> RuntimeArtifact:
    """A WebAssembly module with just the operator kernels and types that are needed, for one thread.

    With ``threads`` it has as many as the page asks for when it loads it (Emscripten's ``numThreads``), and needs a page that is
    cross-origin isolated for more than one. ``library`` is the ``.wasm``, ``companions`` its JavaScript module. Raises ``MissingToolError`` where the compiler
    cannot be had, with what to do without.
    """
    from edgepack.foundry.web.reduce import reduce_web_runtime

    return reduce_web_runtime(needs, kind=kind, threads=threads, sources=sources, context=context)


def fetch_web_toolchain(*, context: BuildContext) -> None:
    """Fetch what ``reduce_web_runtime`` compiles with and from: Emscripten, and ONNX Runtime's sources.

    Raises ``MissingToolError`` where Emscripten cannot be had.
    """
    from edgepack.foundry.sources.pinned import fetch_sources
    from edgepack.foundry.web.emscripten import emscripten

    emscripten(context=context)
    fetch_sources(context=context)


def stock_web_runtime(*, context: BuildContext) -> RuntimeArtifact:
    """The WebAssembly of npm's onnxruntime-web, of the converter's version, as it comes: with every operator."""
    from edgepack.foundry.web.stock import stock_web_runtime

    return stock_web_runtime(context=context)


def prove_web(model: PreparedModel, runtime: RuntimeArtifact, *, context: BuildContext) -> LevelProof:
    """Run a model on a WebAssembly runtime in Node; raises ``ProofError`` for other vectors than the stock library's."""
    from edgepack.foundry.web.prove import prove_web

    return prove_web(model, runtime, context=context)


def onnxruntime_web(*, context: BuildContext) -> Path:
    """The folder of npm's package onnxruntime-web, of the converter's version, in the store."""
    from edgepack.foundry.web.stock import onnxruntime_web

    return onnxruntime_web(context=context)


def freeze_runner(
    *,
    model: PreparedModel | None = None,
    context: BuildContext,
    platform: Platform | None = None,
) -> RunnerArtifact:
    """The ``embed`` program for this machine's kind, frozen with PyInstaller; it reads the bundle's manifest.

    With ``model`` and ``platform``, its tokenizer is compiled if it can be, and tokenizers is left out. With ``platform``, raises ``FloorError`` when the program needs a newer glibc than its devices have.
    """
    from edgepack.runner.freeze import freeze_runner

    return freeze_runner(model=model, context=context, platform=platform)


def link_native_runner(
    model: PreparedModel,
    *,
    platform: Platform,
    kind: RuntimeKind = "minimal",
    sources: Path | None = None,
    glibc: str | None = None,
    library: bool = False,
    context: BuildContext,
) -> RunnerArtifact:
    """The ``embed`` program in C++ with the model's operator kernels linked in, and the model's tokenizer compiled.

    A kind of runner for one model, without Python: much smaller, quick to start, and for any architecture that a runtime
    can be made for; ``library`` adds libembed, the same as a shared library with a C header and a Python module.
    Raises ``UnsupportedModelError`` for a tokenizer with a component that it does not have.
    """
    from edgepack.runner.native.build import link_native_runner

    return link_native_runner(
        model,
        platform=platform,
        kind=kind,
        sources=sources,
        glibc=glibc,
        library=library,
        context=context,
    )


def system_libraries(names: Iterable[str], *, context: BuildContext) -> tuple[SystemLibrary, ...]:
    """Libraries of this machine that go along because a device need not have them, e.g. libstdc++, with their licences."""
    from edgepack.runner.system_libraries import system_libraries

    return system_libraries(names, context=context)


def tokenizer_tables(source: ModelSource) -> TokenizerTables:
    """A model's tokenizer for a runner that is not Python: tokenizer.json, WordPiece as a table, special tokens."""
    from edgepack.runner.tables import tokenizer_tables

    return tokenizer_tables(source)


def tokenizer_cases(source: ModelSource, count: int) -> list[tuple[str, list[int], list[int]]]:
    """Texts with the ids and types that the real tokenizer gives them, cut at the model's length.

    The verification texts and ``count`` strange ones, of all scripts: what another tokenizer is compared on.
    """
    from edgepack.runner.tables import tokenizer_cases

    return tokenizer_cases(source, count)


def usage_of(source: ModelSource) -> tuple[dict[str, str], dict[str, Any] | None]:
    """What goes before queries and passages, and to which dimensions vectors may be cut, as the manifest says them."""
    from edgepack.bundle.usage import prefixes, shortening

    return prefixes(source), shortening(source)


def linked_runtime(
    model: PreparedModel,
    *,
    platform: Platform,
    kind: RuntimeKind = "minimal",
    sources: Path | None = None,
    glibc: str | None = None,
    context: BuildContext,
) -> RuntimeArtifact:
    """The runtime that ``link_native_runner`` links into its program: what it holds, without a library of its own."""
    from edgepack.runner.native.build import linked_runtime

    return linked_runtime(model, platform=platform, kind=kind, sources=sources, glibc=glibc, context=context)


def fetch_runtime_sources(*, context: BuildContext) -> None:
    """Put ONNX Runtime's pinned sources into the store."""
    from edgepack.foundry.sources.pinned import fetch_sources

    fetch_sources(context=context)


def fetch_emulator(architecture: str, *, context: BuildContext) -> None:
    """Put an emulator of that architecture into the store; raises ``MissingToolError`` where none can be had."""
    from edgepack.foundry.proof.emulator import find_emulator

    find_emulator(architecture, context=context)
