"""The native runner for a model: the program, linked with just the runtime that the model needs, and its tokenizer."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from zipfile import ZipFile, ZipInfo

import edgepack
from edgepack.context import BuildContext
from edgepack.errors import ToolError
from edgepack.files.elf import floor_of
from edgepack.foundry.link.program import build_program
from edgepack.foundry.link.reduced_library import open_build
from edgepack.foundry.link.standalone import build_standalone
from edgepack.foundry.units import ProgramSources
from edgepack.licenses import license_text
from edgepack.models.read.tokenizer import minimal_json
from edgepack.operators.config import required
from edgepack.records.bundle import RunnerArtifact
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.runtime import RuntimeArtifact, RuntimeKind
from edgepack.records.target import Platform
from edgepack.runner.native.ahead import compiling_ahead
from edgepack.runner.native.sources import (
    EXPORTS,
    Encoder,
    library_sources,
    ort_encoder,
    own_encoder,
    program_sources,
)
from edgepack.runner.tokenizer.compile import compiled_tokenizer

NATIVE = "native"
PROGRAM = "embed"
LIBRARY = "lib/libembed.so"
SCHEMA = "1"
P256 = "p256-m-3.6.7.txt"
"""The licence of what verifies signatures; the version is that of Mbed TLS."""
ENCODER_PAGE = "docs/tutorials/encoder.md says what an encoder declares and includes"
HOW = {"linked": "with the runtime inside", "loaded": "loads the runtime", "none": "without a runtime"}
"""For the user, of an encoder's runtime."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """The program ``embed`` in C++: an encoder, features and a platform. Small, quick to start, without Python."""

    encoder: Encoder
    features: frozenset[str] = frozenset()
    """Of ``FEATURES``, beside those that the model asks for; ``library``: also libembed, the same as a shared library with a C header and a
    Python module, with kernels of its own."""
    possible: tuple[str, ...] = ()
    """Features that the target can be asked for, and that a program without them names."""
    platform: Platform
    any_libc: bool = False
    """Whether libembed is one that any C library loads, where there is such for the processor."""
    kind: RuntimeKind = "minimal"
    """Of a runtime that is linked in."""
    glibc: str | None = None
    public_key: str = ""
    """The text of a PEM: program and library refuse every bundle that is not signed with that key."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """More sources of libembed, file name → text."""
    exports: tuple[str, ...] = ()
    """And what it exports of them."""

    def sources(self, source: ModelSource) -> dict[str, ProgramSources]:
        """Sources for a model, by their place in the bundle."""
        features = self.features - {"library"} | features_of(source)
        program = program_sources(self.encoder, features, possible=self.possible, key=self.public_key)
        wanted = {PROGRAM: ProgramSources(files=program, output=PROGRAM)}
        if "library" in self.features:
            own = {f"libembed/beside/{name}": text for name, text in self.beside.items()}
            files = {**library_sources(self.encoder, features, key=self.public_key), **own}
            exports = (*EXPORTS, *self.exports)
            wanted[LIBRARY] = ProgramSources(files=files, output=Path(LIBRARY).name, exports=exports)
        return wanted

    def link(self, one: ProgramSources, model: PreparedModel, context: BuildContext) -> Path:
        """A folder of the store with the finished file. Raises what ``reduce_runtime`` raises."""
        if self.encoder.runtime == "linked":
            needs = required(model.needs)
            return build_program(
                one, needs, platform=self.platform, kind=self.kind, glibc=self.glibc, context=context
            )
        try:
            return build_standalone(
                one,
                platform=self.platform,
                glibc=self.glibc,
                any_libc=self.any_libc and bool(one.exports),
                context=context,
            )
        except ToolError as error:
            if self.encoder.runtime == "loaded":
                raise
            hint = "; ".join(filter(None, [ENCODER_PAGE, error.hint]))
            raise ToolError(error.message, hint=hint) from error


def features_of(source: ModelSource) -> frozenset[str]:
    """Features that a program has because of its model."""
    wanted = {"scores": source.head is not None, "outputs": source.outputs is not None}
    return frozenset(name for name, needed in wanted.items() if needed)


def require_native(source: ModelSource, *, context: BuildContext) -> None:
    """Raise ``UnsupportedModelError`` naming the tokenizer's component that the program in C++ does not have."""
    compiled_tokenizer(minimal_json(source), pairs=source.head is not None, context=context)


def make_program(program: Program, model: PreparedModel, *, context: BuildContext) -> RunnerArtifact:
    """The program, libembed where it is asked for, and the model's tokenizer, compiled.

    Raises ``UnsupportedModelError`` naming the tokenizer's component that the program does not have, and what
    ``reduce_runtime`` raises.
    """
    tokenizer = compiled_tokenizer(
        minimal_json(model.source), pairs="scores" in features_of(model.source), context=context
    )
    folder = context.work_dir / "native-runner"
    wanted = program.sources(model.source)
    licenses: dict[str, Path] = {}
    for place, one in wanted.items():
        made = program.link(one, model, context)
        licenses |= {text.name: text for text in sorted((made / "licenses").iterdir())}
        _lay(made / one.output, folder / place)
    library = LIBRARY in wanted
    if library:
        lay_interfaces(folder)
    if library or program.public_key or "signatures" in program.features:
        licenses[P256] = license_of_p256(context.work_dir / P256)
    context.note(f"native, {(folder / PROGRAM).stat().st_size / 1e6:.2f} MB, {HOW[program.encoder.runtime]}")
    return RunnerArtifact(
        directory=folder,
        program=PROGRAM,
        library=LIBRARY if library else None,
        kind=NATIVE,
        versions=_versions(folder),
        licenses=tuple(licenses.values()),
        tokenizer=tokenizer,
        serves="serve" in program.features,
        outputs=program.encoder.outputs,
    )


def _chosen(**features: bool) -> frozenset[str]:
    return frozenset(name for name, wanted in features.items() if wanted)


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
    features = _chosen(library=library, serve=serve, signatures=signatures)
    program = _linked(features, platform, kind, glibc, public_key)
    return make_program(program, model, context=context)


@contextmanager
def native_runner_ahead(
    source: ModelSource,
    *,
    platform: Platform,
    kind: RuntimeKind = "minimal",
    glibc: str | None = None,
    library: bool = False,
    serve: bool = False,
    signatures: bool = False,
    public_key: str = "",
    context: BuildContext,
) -> Iterator[None]:
    """While the block prepares a model, compile what ``link_native_runner`` will link of, where the cache has nothing of ONNX Runtime and there
    is more than one processor. What is not compiled when the block ends is compiled then.
    """
    features = _chosen(library=library, serve=serve, signatures=signatures)
    program = _linked(features, platform, kind, glibc, public_key)
    wanted = tuple(program.sources(source).values())
    with compiling_ahead(wanted, platform=platform, kind=kind, glibc=glibc, context=context):
        yield


def _linked(
    features: frozenset[str], platform: Platform, kind: RuntimeKind, glibc: str | None, public_key: str
) -> Program:
    return Program(
        encoder=ort_encoder("linked"),
        features=features,
        platform=platform,
        kind=kind,
        glibc=glibc,
        public_key=public_key,
    )


def link_loading_runner(
    model: PreparedModel,
    *,
    platform: Platform,
    library: bool = False,
    serve: bool = False,
    signatures: bool = False,
    public_key: str = "",
    gpu: bool = False,
    context: BuildContext,
) -> RunnerArtifact:
    """Link the program that loads ONNX Runtime from the library that the manifest names: no source of it is needed.

    Any release since 1.5 will do. With ``gpu`` the program runs the model by the execution provider that the runtime's artifact names (since
    1.24), on a GPU. Raises ``UnsupportedModelError`` naming the tokenizer's component that the program does not have,
    ``FloorError``, ``MissingToolError`` or ``ToolError``.
    """
    program = Program(
        encoder=ort_encoder("loaded"),
        features=_chosen(library=library, serve=serve, signatures=signatures, gpu=gpu),
        platform=platform,
        public_key=public_key,
    )
    return make_program(program, model, context=context)


def link_encoder(
    model: PreparedModel,
    encoder: Mapping[str, str],
    *,
    includes: Sequence[Path] = (),
    outputs: tuple[str, ...] = (),
    library: bool = False,
    any_libc: bool = False,
    serve: bool = False,
    chunks: bool | None = None,
    polite: bool = False,
    beside: Mapping[str, str] | None = None,
    exports: tuple[str, ...] = (),
    platform: Platform,
    glibc: str | None = None,
    context: BuildContext,
) -> RunnerArtifact:
    """The program ``embed`` in C++ with an encoder of one's own in ONNX Runtime's place, and the model's tokenizer, compiled.

    ``encoder`` is C++17, file name → text, headers too. It implements the interface of ``encoder/encoder.h``: an ``Encoder`` that makes
    vectors of batches, and ``open_encoder``, as docs/tutorials/encoder.md says. ``includes`` are folders of others' headers.
    No exceptions, no RTTI. ``outputs`` are what it gives beside vectors (``RunnerArtifact.outputs``): ``tokens`` through ``TokenVectors``.
    A builder that needs no runtime returns none. With ``library`` there is also libembed, with that encoder; with ``serve`` the program has ``embed serve``, with ``polite`` `embed search --polite`, with ``chunks`` `embed --chunks`;
    ``False`` if the target could be asked for it, which the program then says.
    ``any_libc``: the encoder calls the C library alone and keeps nothing for a thread, so libembed may be one that any C library loads. ``beside`` are more sources of libembed, C or C++, of which it has ``exports``.

    Raises ``UnsupportedModelError`` naming the tokenizer's component that the program does not have, ``FloorError``,
    ``MissingToolError`` or ``ToolError``.
    """
    program = Program(
        encoder=own_encoder(encoder, includes, outputs),
        features=_chosen(library=library, serve=serve, chunks=bool(chunks), polite=polite),
        possible=() if chunks is None else ("chunks",),
        beside=beside or {},
        exports=exports,
        platform=platform,
        any_libc=any_libc,
        glibc=glibc,
    )
    return make_program(program, model, context=context)


def _versions(folder: Path) -> dict[str, str]:
    """Versions of a runner in the manifest; static programs have no glibc to be older than."""
    floor = floor_of(folder)
    return {"native": SCHEMA, **({"glibc_floor": floor} if floor else {})}


def _lay(file: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, place)
    place.chmod(0o755 if place.name == PROGRAM else 0o644)


def license_of_p256(file: Path) -> Path:
    """Licence of ``third_party/p256``."""
    head = "p256-m, of Mbed TLS, Copyright The Mbed TLS Contributors. https://github.com/Mbed-TLS/mbedtls\n\n"
    file.write_text(head + (license_text("Apache-2.0") or ""), encoding="utf-8")
    return file


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
    """The C header, what pkg-config reads, and the Python module, into a bundle's folder.

    Python writes what it compiled beside a module, and pip does; never into a zip, and so the bundle stays as it was signed.
    """
    package = files("edgepack.runner.native")
    header, module = package / "csrc/libembed/embed.h", package / "bundle_python/edgepack_bundle.py"
    interfaces = {
        "include/embed.h": header.read_text(encoding="utf-8"),
        "lib/pkgconfig/libembed.pc": PKG_CONFIG % edgepack.__version__,
    }
    for place, text in interfaces.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text, encoding="utf-8")
    with ZipFile(folder / "python", "w") as archive:
        archive.writestr(ZipInfo("edgepack_bundle.py"), module.read_bytes())
