"""The native runner for a model: the program, linked with just the runtime that the model needs, and its tokenizer."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import edgepack
from edgepack.context import BuildContext
from edgepack.errors import ToolError
from edgepack.files.elf import floor_of
from edgepack.foundry.link.library import open_build
from edgepack.foundry.link.program import ProgramSources, build_program
from edgepack.foundry.link.standalone import build_standalone
from edgepack.licenses import license_text
from edgepack.models.read.tokenizer import minimal_json
from edgepack.operators.config import required
from edgepack.records.bundle import RunnerArtifact
from edgepack.records.model import PreparedModel
from edgepack.records.runtime import RuntimeArtifact, RuntimeKind
from edgepack.records.target import Platform
from edgepack.runner.native.sources import (
    CHECKED,
    EXPORTS,
    LLHTTP,
    SIGNATURE_EXPORTS,
    TOKENIZER_EXPORTS,
    Signatures,
    library_sources,
    program_sources,
    program_with_encoder,
    signature_library_sources,
    tokens_library_sources,
)
from edgepack.runner.tokenizer.compile import compiled_tokenizer

NATIVE = "native"
PROGRAM = "embed"
LIBRARY = "lib/libembed.so"
TOKENS_LIBRARY = "libtokens.so"
SIGNATURE_LIBRARY = "libsignature.so"
SCHEMA = "1"
P256 = "p256-m-3.6.7.txt"
"""The licence of what verifies signatures; the version is that of Mbed TLS."""
LLHTTP_LICENSE = "llhttp-9.4.3.txt"
ENCODER_PAGE = "docs/tutorials/encoder.md says what an encoder declares and includes"


def link_native_runner(
    model: PreparedModel,
    *,
    platform: Platform,
    kind: RuntimeKind = "minimal",
    glibc: str | None = None,
    library: bool = False,
    serve: bool = False,
    signatures: bool = False,
    public_key: str = "",
    context: BuildContext,
) -> RunnerArtifact:
    """The program ``embed`` in C++ with the model's operator kernels inside, and the model's tokenizer, compiled.

    A runner for one model, without Python: small, quick to start, and for any architecture that a runtime can be made for.
    With ``library`` also libembed, the same as a shared library with a C header and a Python module, with kernels of its own.
    With ``serve`` the program has ``embed serve``.

    With ``signatures`` the program can check that its bundle is signed (libembed can anyway); with ``public_key``, the
    text of a PEM, program and library refuse every bundle that is not signed with that key.

    Raises ``UnsupportedModelError`` naming the tokenizer's component that the program does not have, and what
    ``reduce_runtime`` raises.
    """

    def linked(one: ProgramSources) -> Path:
        return build_program(
            one, required(model.needs), platform=platform, kind=kind, glibc=glibc, context=context
        )

    signed = Signatures(checked=signatures, key=public_key)
    sources = _sources(model, linked=True, library=library, serve=serve, signatures=signed)
    return _runner(model, sources, linked, how="with the runtime inside", context=context)


def link_loading_runner(
    model: PreparedModel,
    *,
    platform: Platform,
    library: bool = False,
    serve: bool = False,
    signatures: bool = False,
    public_key: str = "",
    context: BuildContext,
) -> RunnerArtifact:
    """The same program, which loads ONNX Runtime from the library that the manifest names: no source of it is needed.

    Any release since 1.5 will do. Raises ``UnsupportedModelError`` naming the tokenizer's component that the program does not have,
    ``FloorError``, ``MissingToolError`` or ``ToolError``.
    """

    def loading(one: ProgramSources) -> Path:
        return build_standalone(one, platform=platform, context=context)

    signed = Signatures(checked=signatures, key=public_key)
    sources = _sources(model, linked=False, library=library, serve=serve, signatures=signed)
    return _runner(model, sources, loading, how="loads the runtime", context=context)


def _sources(
    model: PreparedModel, *, linked: bool, library: bool, serve: bool, signatures: Signatures
) -> dict[str, ProgramSources]:
    """What is built for a model, by its place in the bundle."""
    scored = model.source.head is not None
    given = model.source.outputs is not None
    program = program_sources(linked=linked, signatures=signatures, scored=scored, given=given, served=serve)
    wanted = {PROGRAM: ProgramSources(files=program, output=PROGRAM)}
    if library:
        files = library_sources(linked=linked, key=signatures.key, scored=scored, given=given)
        wanted[LIBRARY] = ProgramSources(files=files, output=Path(LIBRARY).name, exports=EXPORTS)
    return wanted


def _runner(
    model: PreparedModel,
    wanted: Mapping[str, ProgramSources],
    build: Callable[[ProgramSources], Path],
    *,
    how: str,
    context: BuildContext,
) -> RunnerArtifact:
    """Program and library, each built into a folder of the store, laid into the runner's; ``how`` is for the user."""
    tokenizer = compiled_tokenizer(
        minimal_json(model.source), pairs=model.source.head is not None, context=context
    )
    folder = context.work_dir / "native-runner"
    licenses: dict[str, Path] = {}
    for place, one in wanted.items():
        made = build(one)
        licenses |= {text.name: text for text in sorted((made / "licenses").iterdir())}
        _lay(made / one.output, folder / place)
    library = LIBRARY in wanted
    if library:
        lay_interfaces(folder)
    if any(CHECKED in one.files for one in wanted.values()):
        licenses[P256] = license_of_p256(context.work_dir / P256)
    if LLHTTP in wanted[PROGRAM].files:
        licenses[LLHTTP_LICENSE] = license_of_llhttp(context.work_dir / LLHTTP_LICENSE)
    context.note(f"native, {(folder / PROGRAM).stat().st_size / 1e6:.2f} MB, {how}")
    return RunnerArtifact(
        directory=folder,
        program=PROGRAM,
        library=LIBRARY if library else None,
        kind=NATIVE,
        versions=_versions(folder),
        licenses=tuple(licenses.values()),
        tokenizer=tokenizer,
        serves=LLHTTP in wanted[PROGRAM].files,
        gives=("scores", "sparse", "tokens"),
    )


def _versions(folder: Path) -> dict[str, str]:
    """What the manifest says of a runner; static programs have no glibc to be older than."""
    floor = floor_of(folder)
    return {"native": SCHEMA, **({"glibc_floor": floor} if floor else {})}


def _lay(file: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, place)
    place.chmod(0o755 if place.name == PROGRAM else 0o644)


def license_of_p256(file: Path) -> Path:
    """What ``signature/p256.cc`` is under."""
    head = "p256-m, of Mbed TLS, Copyright The Mbed TLS Contributors. https://github.com/Mbed-TLS/mbedtls\n\n"
    file.write_text(head + (license_text("Apache-2.0") or ""), encoding="utf-8")
    return file


def license_of_llhttp(file: Path) -> Path:
    """What the folder ``llhttp`` is under."""
    head = "llhttp, Copyright © 2018 Fedor Indutny. https://github.com/nodejs/llhttp\n\n"
    file.write_text(head + (license_text("MIT") or ""), encoding="utf-8")
    return file


def link_encoder(
    model: PreparedModel,
    encoder: Mapping[str, str],
    *,
    includes: Sequence[Path] = (),
    serve: bool = False,
    platform: Platform,
    glibc: str | None = None,
    context: BuildContext,
) -> RunnerArtifact:
    """The program ``embed`` in C++ with an encoder of one's own in ONNX Runtime's place, and the model's tokenizer, compiled.

    ``encoder`` is C++17, file name → text, headers too; its ``session.h`` declares a ``Batch`` and a ``Session`` that opens the
    model's file and makes vectors of batches, as docs/tutorials/encoder.md says. ``includes`` are folders of others' headers.
    No exceptions, no RTTI. A builder that needs no runtime returns none. With ``serve`` the program has ``embed serve``.

    Raises ``UnsupportedModelError`` naming the tokenizer's component that the program does not have, ``FloorError``,
    ``MissingToolError`` or ``ToolError``.
    """
    tokenizer = compiled_tokenizer(minimal_json(model.source), context=context)
    sources = ProgramSources(files=program_with_encoder(encoder, includes, served=serve), output=PROGRAM)
    try:
        made = build_standalone(sources, platform=platform, glibc=glibc, context=context)
    except ToolError as error:
        hint = "; ".join(filter(None, [ENCODER_PAGE, error.hint]))
        raise ToolError(error.message, hint=hint) from error
    folder = context.work_dir / "native-runner"
    folder.mkdir()
    shutil.copyfile(made / PROGRAM, folder / PROGRAM)
    (folder / PROGRAM).chmod(0o755)
    context.note(f"native, {(folder / PROGRAM).stat().st_size / 1e6:.2f} MB without a runtime")
    return RunnerArtifact(
        directory=folder,
        program=PROGRAM,
        kind=NATIVE,
        versions=_versions(folder),
        licenses=(
            *sorted((made / "licenses").iterdir()),
            *([license_of_llhttp(context.work_dir / LLHTTP_LICENSE)] if serve else []),
        ),
        tokenizer=tokenizer,
        serves=serve,
    )


def linked_runtime(
    model: PreparedModel,
    *,
    platform: Platform,
    kind: RuntimeKind = "minimal",
    glibc: str | None = None,
    context: BuildContext,
) -> RuntimeArtifact:
    """The runtime that ``link_native_runner`` links into the program: there is no library of its own."""
    needs = required(model.needs)
    build = open_build(needs, platform=platform, kind=kind, glibc=glibc, context=context)
    context.note(f"{len(needs)} operators, linked into the program")
    return build.artifact(None, needs)


PKG_CONFIG = """\
prefix=${pcfiledir}/../..
Name: libembed
Description: Embedding vectors of texts, with the model of this bundle
Version: %s
Cflags: -I${prefix}/include
Libs: -L${prefix}/lib -lembed
"""
"""Wherever the bundle lies."""


def lay_interfaces(folder: Path) -> None:
    """The C header, what pkg-config reads, and the Python module, into a bundle's folder."""
    package = files("edgepack.runner.native")
    header, module = package / "csrc/libembed/embed.h", package / "bundle_python/edgepack_bundle.py"
    interfaces = {
        "include/embed.h": header.read_text(encoding="utf-8"),
        "lib/pkgconfig/libembed.pc": PKG_CONFIG % edgepack.__version__,
        "python/edgepack_bundle.py": module.read_text(encoding="utf-8"),
    }
    for place, text in interfaces.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text, encoding="utf-8")


def link_signature_library(platform: Platform, *, context: BuildContext) -> tuple[Path, Path]:
    """libsignature.so, which checks signatures for the frozen program, and the folder of its licences.

    Raises ``FloorError``, ``MissingToolError`` or ``ToolError``.
    """
    sources = ProgramSources(
        files=signature_library_sources(), output=SIGNATURE_LIBRARY, exports=SIGNATURE_EXPORTS
    )
    made = build_standalone(sources, platform=platform, context=context)
    return made / SIGNATURE_LIBRARY, made / "licenses"


def link_tokens_library(
    model: PreparedModel, *, platform: Platform, standalone: bool = False, context: BuildContext
) -> Path:
    """libtokens.so, which reads compiled tokenizers: nothing of the runtime is in it. Raises as ``link_native_runner``.

    With ``standalone`` no source of ONNX Runtime is needed, nor what the model needs.
    """
    sources = ProgramSources(files=tokens_library_sources(), output=TOKENS_LIBRARY, exports=TOKENIZER_EXPORTS)
    if standalone:
        return build_standalone(sources, platform=platform, context=context) / TOKENS_LIBRARY
    made = build_program(sources, required(model.needs), platform=platform, context=context)
    return made / TOKENS_LIBRARY
