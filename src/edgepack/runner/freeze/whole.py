"""Freezing the runner: the program ``embed`` with the Python that it needs, for this machine's kind of device."""

import hashlib
import importlib.metadata
import json
import logging
import platform as host
import shutil
import sys
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
from edgepack.runner.freeze.pyinstaller import PACKAGE, PROGRAM, freeze, tokenizers_module
from edgepack.runner.freeze.python_library import python_library
from edgepack.runner.freeze.whole_smoke_test import smoke_test
from edgepack.runner.frozen.base.signature import LIBRARY as SIGNATURE
from edgepack.runner.frozen.tokenizer.compiled import LIBRARY as TOKENS
from edgepack.runner.native.build import (
    P256,
    license_of_p256,
    link_signature_library,
    link_tokens_library,
)
from edgepack.runner.tokenizer.compile import compiled_tokenizer
from edgepack.tools import find

log = logging.getLogger(__name__)

SOURCES = Path(__file__).parents[1] / "frozen"
BUILT_FOR = "base/built_for.py"
KIND = "pyinstaller"
SCHEMA = "1"


def freeze_whole_runner(
    *,
    model: PreparedModel | None = None,
    context: BuildContext,
    platform: Platform | None = None,
    signatures: bool = False,
    public_key: str = "",
    standalone: bool = False,
) -> RunnerArtifact:
    """The program ``embed`` for this machine's kind, which reads the bundle's manifest and so serves every model.

    For a ``model`` whose tokenizer can be compiled it holds that and a small library, and not tokenizers, which would take
    a third of the program's memory; with ``standalone`` that library is made without ONNX Runtime's sources. Frozen once for a Python and these sources, then taken from the store.

    With ``signatures`` it can check that its bundle is signed; with ``public_key``, the text of a PEM, it refuses every bundle
    that is not signed with that key. Both ask for a ``platform``, for they bring a library.

    Raises ``MissingToolError`` for a Python
    without a shared library or a machine without binutils, ``ToolError`` or ``ProofError`` when the program cannot be
    frozen or, frozen, does not work, ``FloorError`` when it needs a newer glibc than the devices of ``platform`` have.
    """
    tokens = None
    if model and platform:
        tokens = compiled_tokenizer_for(model, platform, standalone=standalone, context=context)
    parts = Parts(tokens=tokens.library if tokens else None, public_key=public_key)
    if (signatures or public_key) and platform:
        library, licenses = link_signature_library(platform, context=context)
        parts = replace(parts, signature=library, licenses=tuple(sorted(licenses.iterdir())))
    made = context.store.cached(
        "runner", {**inputs(), **parts.decide()}, lambda folder: make(folder, parts=parts, context=context)
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
        serves=True,
        gives=("scores", "sparse"),
    )


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a frozen program has beside Python."""

    tokens: Path | None = None
    """The library that reads compiled tokenizers, in the place of tokenizers."""
    signature: Path | None = None
    """The library that checks signatures."""
    licenses: tuple[Path, ...] = ()
    """Of that library."""
    public_key: str = ""
    """What every bundle has to be signed with, in PEM."""

    def decide(self) -> dict[str, str]:
        """What of it the program depends on; nothing where there is nothing."""
        digests = {"tokens": self.tokens, "signature": self.signature}
        named = {name: sha256_of(library) for name, library in digests.items() if library}
        return {**named, **({"public_key": self.public_key} if self.public_key else {})}


NOTHING = Parts()


@dataclass(frozen=True, kw_only=True)
class TokenizerParts:
    """A compiled tokenizer, and the library that reads such."""

    table: Path
    library: Path


def compiled_tokenizer_for(
    model: PreparedModel, platform: Platform, *, standalone: bool, context: BuildContext
) -> TokenizerParts | None:
    """None where the tokenizer has a part that cannot be compiled."""
    try:
        table = compiled_tokenizer(
            minimal_json(model.source), pairs=model.source.head is not None, context=context
        )
    except UnsupportedModelError as error:
        log.debug("tokenizers is frozen: %s", error.message)
        return None
    library = link_tokens_library(model, platform=platform, standalone=standalone, context=context)
    return TokenizerParts(table=table, library=library)


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


def make(folder: Path, *, parts: Parts = NOTHING, context: BuildContext) -> None:
    """Fill a store entry: ``program/``, ``licenses/`` and ``versions.json``."""
    for tool in ("ldd", "objdump", "patchelf", "strip"):
        find(tool)
    work = context.work_dir / "runner"
    work.mkdir(parents=True, exist_ok=True)
    python = python_library(work / "python", context=context)
    program = work / "program"
    trim = freeze_leanest(program, library=python, parts=parts, context=context)
    versions = versions_of(program, trim)
    write_licenses(program, folder / "licenses", context=context)
    for library, place in ((parts.tokens, TOKENS), (parts.signature, SIGNATURE)):
        if library is not None:
            (program / place).parent.mkdir(exist_ok=True)
            shutil.copyfile(library, program / place)
    if parts.signature:
        license_of_p256(folder / "licenses" / P256)
        for text in parts.licenses:
            shutil.copyfile(text, folder / "licenses" / text.name)
    (folder / "versions.json").write_text(json.dumps(versions, indent=1))
    # The store may lie on another file system than temporary folders do.
    shutil.copytree(program, folder / "program", symlinks=True)


def freeze_leanest(program: Path, *, library: Path, parts: Parts = NOTHING, context: BuildContext) -> str:
    """Freeze with as little as works, and say how much was left out, by name.

    What asks for a signature is tried as one that does not, for nothing that it could be tried on is signed.
    """
    compiled = parts.tokens is not None
    failure: EdgepackError | None = None
    for excludes in LEANEST_FIRST:
        asked: Any = {"excludes": excludes, "python_library": library}
        try:
            freeze(program, sources=sources_of(compiled, ""), **asked, context=context)
            smoke_test(
                program,
                work=program.parent,
                tokens_library=parts.tokens,
                signature_library=parts.signature,
                context=context,
            )
            if parts.public_key:
                freeze(program, sources=sources_of(compiled, parts.public_key), **asked, context=context)
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


def sources_of(compiled: bool, public_key: str) -> dict[str, bytes]:
    """The sources as they are frozen: a package of its own name."""
    found = {
        f"{PACKAGE}/{file.relative_to(SOURCES).as_posix()}": file.read_bytes()
        for file in sorted(SOURCES.rglob("*.py"))
        if file.parent.name != "thin"
    }
    if public_key:
        found[f"{PACKAGE}/{BUILT_FOR}"] = f"BUILT_FOR = {public_key!r}\n".encode()
    start = f"from {PACKAGE}.__main__ import start\n\nstart()\n".encode()
    return {**found, **({} if compiled else tokenizers_module()), f"{PROGRAM}.py": start}
