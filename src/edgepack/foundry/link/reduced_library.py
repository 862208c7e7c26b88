"""A reduced runtime library for a set of operators."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.foundry.compile.archive import KernelArchive, open_archive
from edgepack.foundry.link.composition import COMPOSITION, write_composition
from edgepack.foundry.link.postlink import MAP, settle
from edgepack.foundry.link.reduce import Outside, Reduced, link_reduced
from edgepack.foundry.linkmap import Piece
from edgepack.foundry.release import Release
from edgepack.foundry.releases.registry import RELEASE
from edgepack.foundry.symbols import check_floor
from edgepack.foundry.toolchain import Link, NativeToolchain
from edgepack.foundry.toolchains.choose import choose
from edgepack.operators.config import format_config, required, types_by_operator, union
from edgepack.records.operators import Operator, Operators
from edgepack.records.runtime import RuntimeArtifact, RuntimeKind
from edgepack.records.target import Platform

SCHEMA = "7"
"""Changes when the same objects are linked otherwise."""
SONAME = "libonnxruntime.so.1"


@dataclass(frozen=True, kw_only=True)
class NativeBuild:
    """An archive for Linux, the toolchain that links of it, and the instruction sets that the device has."""

    archive: KernelArchive
    toolchain: NativeToolchain
    isa: tuple[str, ...]

    def artifact(
        self, library: Path | None, needs: Operators, *, licenses: Iterable[Path] = ()
    ) -> RuntimeArtifact:
        """Record of a runtime for these operators, in a library or linked into a program."""
        release, arch = self.archive.release, self.toolchain.arch
        return RuntimeArtifact(
            library=library,
            version=release.version,
            kind=self.archive.kind,
            provides=provided(needs),
            toolchain=self.toolchain.identity,
            licenses=tuple(licenses),
            isa=release.feature_levels.kept(self.isa, arch),
            requires=release.feature_levels.required_flags(self.isa, arch),
            source_files=self.archive.source_files,
            header=self.archive.tree.header,
        )

    def link(
        self,
        link: Link,
        needs: Operators,
        *,
        asked: Sequence[str],
        below: Sequence[Path],
        context: BuildContext,
    ) -> Reduced:
        """Link the objects of ``link`` with what they and the symbols ``asked`` lead to, and finish the file.

        Beside it come its map, in which objects are named relative to ``below``, and its licences.
        """

        def once(reduced: Reduced) -> Sequence[Piece]:
            whole = replace(link, objects=[*link.objects, *reduced.objects])
            self.toolchain.link(whole, context=context)
            return list(self.toolchain.pieces(link.map_file))

        outside = Outside(asked=asked, libraries=link.libraries)
        request = self.archive.request(needs, self.isa)
        reduced = link_reduced(self.archive, request, outside, once, context=context)
        settle(reduced, self.toolchain, link.output, below=below)
        return reduced


def reduce_runtime(
    needs: Operators | None,
    *,
    platform: Platform,
    kind: RuntimeKind = "minimal",
    glibc: str | None = None,
    release: Release = RELEASE,
    context: BuildContext,
) -> RuntimeArtifact:
    """A runtime library that has the kernels and types of ``needs`` and no others; cached in the store.

    ``glibc`` is the oldest C library that the library itself must run on; by default 2.28, or the platform's where that
    is older.

    Raises ``ModelError`` for needs that are not known, ``UnsupportedModelError`` for an operator without a kernel, ``FloorError`` for a library that asks more
    of the device than ``platform`` allows, ``DownloadError``, ``MissingToolError`` or ``ToolError``.
    """
    needs = union([required(needs)])
    build = open_build(needs, platform=platform, kind=kind, glibc=glibc, release=release, context=context)
    archive = build.archive
    folder = context.store.cached(
        "runtime",
        {
            "archive": archive.identity,
            "link": SCHEMA,
            "composition": "1",
            "marks": " ".join(sorted(build.toolchain.marks)),
            "trims": repr(archive.settings["link"]),
            "isa": repr(build.isa),
            "operators": format_config(needs),
            **({"room": release.room} if release.room else {}),
        },
        lambda made: build_library(build, needs, made, context),
    )
    library = folder / library_name(archive.release.version)
    check_floor(library, build.toolchain.glibc)
    context.note(f"{len(needs)} operators, {library.stat().st_size / 1e6:.2f} MB")
    return build.artifact(library, needs, licenses=sorted((folder / "licenses").iterdir()))


def open_build(
    needs: Operators,
    *,
    platform: Platform,
    kind: RuntimeKind,
    glibc: str | None,
    release: Release = RELEASE,
    context: BuildContext,
) -> NativeBuild:
    """The kernel archive for a platform, with every family of kernels that the operators are of.

    Raises what ``reduce_runtime`` raises.
    """
    release.feature_levels.check(platform.isa, platform.arch)
    features = ("ml",) if any(kernel.domain == "ai.onnx.ml" for kernel in needs.kernels) else ()
    toolchain = choose(platform, glibc=glibc, context=context)
    archive = open_archive(
        kind=kind, toolchain=toolchain, features=features, release=release, context=context
    )
    return NativeBuild(archive=archive, toolchain=toolchain, isa=tuple(sorted(platform.isa)))


def library_name(version: str) -> str:
    """Name that upstream gives it."""
    return f"libonnxruntime.so.{version}"


def provided(needs: Operators) -> Operators:
    """Operators of a runtime that was built for ``needs``: type control does not tell versions apart."""
    merged = types_by_operator(needs)
    return Operators(
        kernels=frozenset(
            Operator(
                domain=kernel.domain,
                since=kernel.since,
                name=kernel.name,
                types=merged[kernel.domain, kernel.name],
            )
            for kernel in needs.kernels
        ),
        globally_allowed_types=needs.globally_allowed_types,
    )


def build_library(build: NativeBuild, needs: Operators, folder: Path, context: BuildContext) -> None:
    """Link the library into ``folder``, with its map, its licences and the record of what it is made of."""
    archive, toolchain = build.archive, build.toolchain
    version = archive.release.version
    link = Link(
        objects=(),
        output=folder / library_name(version),
        map_file=folder / MAP,
        log_file=archive.link_log,
        exports=archive.exports,
        required=archive.exports,
        soname=SONAME,
        symbol_version=f"VERS_{version}",
        libraries=toolchain.libraries(context=context),
    )
    reduced = build.link(link, needs, asked=archive.exports, below=(archive.objects,), context=context)
    (folder / "required_operators_and_types.config").write_text(format_config(needs))
    composition = reduced.composition(toolchain.pieces(link.map_file), link.output)
    write_composition(composition, folder / COMPOSITION)
