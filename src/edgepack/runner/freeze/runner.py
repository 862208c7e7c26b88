"""Freezing the runner: the program ``embed`` with the Python that it needs, for this machine's kind of device."""

import hashlib
import importlib.metadata
import json
import logging
import platform as host
import shutil
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import EdgepackError, FloorError, ProofError, ToolError, UnsupportedModelError
from edgepack.files.elf import floor_of, version_key
from edgepack.files.store import sha256_of
from edgepack.models.read.tokenizer import minimal_json
from edgepack.records.bundle import RunnerArtifact
from edgepack.records.model import PreparedModel
from edgepack.records.target import Platform
from edgepack.runner.freeze.cxx_runtime import installed_compiler
from edgepack.runner.freeze.excludes import LEANEST_FIRST
from edgepack.runner.freeze.licenses import write_licenses
from edgepack.runner.freeze.pyinstaller import PROGRAM, SOURCES, freeze
from edgepack.runner.freeze.python_library import python_library
from edgepack.runner.freeze.smoke_test import smoke_test
from edgepack.runner.frozen.tokenizer.compiled import LIBRARY
from edgepack.runner.native.build import link_tokens_library
from edgepack.runner.tokenizer.compile import compiled_tokenizer
from edgepack.tools import find

log = logging.getLogger(__name__)

KIND = "pyinstaller"
SCHEMA = "1"


def freeze_runner(
    *,
    model: PreparedModel | None = None,
    context: BuildContext,
    platform: Platform | None = None,
) -> RunnerArtifact:
    """The program ``embed`` for this machine's kind, which reads the bundle's manifest and so serves every model.

    For a ``model`` whose tokenizer can be compiled it holds that and a small library, and not tokenizers, which would take
    a third of the program's memory. Frozen once for a Python and these sources, then taken from the store. Raises ``MissingToolError`` for a Python
    without a shared library or a machine without binutils, ``ToolError`` or ``ProofError`` when the program cannot be
    frozen or, frozen, does not work, ``FloorError`` when it needs a newer glibc than the devices of ``platform`` have.
    """
    tokens = compiled_tokenizer_for(model, platform, context) if model and platform else None
    library = tokens.library if tokens else None
    decided = inputs()
    if library:
        decided["tokens"] = sha256_of(library)
    made = context.store.cached(
        "runner",
        decided,
        lambda folder: make(folder, library=library, context=context),
    )
    versions = json.loads((made / "versions.json").read_text())
    context.note(
        f"Python {versions['python']}, tokenizers {versions['tokenizers']}, glibc {versions['glibc_floor']}"
    )
    if platform is not None:
        require_floor(versions["glibc_floor"], platform)
    return RunnerArtifact(
        directory=made / "program",
        program=PROGRAM,
        kind=KIND,
        versions=versions,
        licenses=tuple(sorted((made / "licenses").iterdir())),
        tokenizer=tokens.table if tokens else None,
    )


@dataclass(frozen=True, kw_only=True)
class TokenizerParts:
    """A compiled tokenizer, and the library that reads such."""

    table: Path
    library: Path


def compiled_tokenizer_for(
    model: PreparedModel, platform: Platform, context: BuildContext
) -> TokenizerParts | None:
    """None where the tokenizer has a part that cannot be compiled."""
    try:
        table = compiled_tokenizer(minimal_json(model.source), context=context)
    except UnsupportedModelError as error:
        log.debug("tokenizers is frozen: %s", error.message)
        return None
    return TokenizerParts(table=table, library=link_tokens_library(model, platform=platform, context=context))


def require_floor(floor: str, platform: Platform) -> None:
    """Raise ``FloorError`` when what was frozen does not run on the devices."""
    if platform.glibc and floor and version_key(floor) > version_key(platform.glibc):
        raise FloorError(
            f"the frozen program needs glibc {floor}, as the Python and the libgcc that build it do; "
            f"the target's devices have {platform.glibc}",
            hint=f"build on a system with glibc {platform.glibc} or older, in a container for one (Debian 11 has 2.31, "
            f'AlmaLinux 8 has 2.28), or raise the target\'s: --set platform.glibc="{floor}"',
        )


def inputs() -> dict[str, str]:
    """All that decides what a freeze gives."""
    digest = hashlib.sha256()
    for folder in (SOURCES, Path(__file__).parent):
        for source in sorted(folder.rglob("*.py")):
            name = source.relative_to(folder).as_posix()
            digest.update(name.encode() + b"\0" + source.read_bytes() + b"\0")
    return {
        "schema": SCHEMA,
        "sources": digest.hexdigest(),
        "python": f"{sys.version} {host.machine()} {sys.base_prefix}",
        "compiler": installed_compiler() or "",
        "libc": " ".join(host.libc_ver()),
        **{name: importlib.metadata.version(name) for name in ("pyinstaller", "tokenizers", "h11")},
    }


def make(folder: Path, *, library: Path | None = None, context: BuildContext) -> None:
    """Fill a store entry: ``program/``, ``licenses/`` and ``versions.json``."""
    for tool in ("ldd", "objdump", "patchelf", "strip"):
        find(tool)
    work = context.work_dir / "runner"
    work.mkdir(parents=True, exist_ok=True)
    python = python_library(work / "python", context=context)
    program = work / "program"
    trim = freeze_leanest(program, library=python, tokens_library=library, context=context)
    versions = versions_of(program, trim)
    write_licenses(program, folder / "licenses", context=context)
    if library is not None:
        (program / LIBRARY).parent.mkdir()
        shutil.copyfile(library, program / LIBRARY)
    (folder / "versions.json").write_text(json.dumps(versions, indent=1))
    # The store may lie on another file system than temporary folders do.
    shutil.copytree(program, folder / "program", symlinks=True)


def freeze_leanest(
    program: Path, *, library: Path, tokens_library: Path | None = None, context: BuildContext
) -> str:
    """Freeze with as little as works, and say how much was left out, by name."""
    failure: EdgepackError | None = None
    for excludes in LEANEST_FIRST:
        try:
            compiled = tokens_library is not None
            freeze(program, excludes=excludes, python_library=library, compiled=compiled, context=context)
            smoke_test(program, work=program.parent, tokens_library=tokens_library, context=context)
        except (ToolError, ProofError) as error:
            context.note(f"trim {excludes.name!r} does not work here")
            log.debug("trim %s: %s", excludes.name, error.message)
            failure = error
        else:
            return excludes.name
    assert failure is not None
    raise failure


def versions_of(program: Path, trim: str) -> dict[str, str]:
    return {
        "python": host.python_version(),
        "tokenizers": importlib.metadata.version("tokenizers"),
        "h11": importlib.metadata.version("h11"),
        "pyinstaller": importlib.metadata.version("pyinstaller"),
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
        "glibc_floor": floor_of(program) or "",
        "trim": trim,
    }
