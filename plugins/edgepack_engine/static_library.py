"""A bundle for programs that are linked with it: libembed and the model in one archive of objects, ``edgepack bundle --as static-library``."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from edgepack.api import BuildContext, Bundle, Platform, Target, UsageError
from edgepack.api.axes import TarEntry, bundle_entries, write_tarball
from edgepack.api.kit import zig_program
from edgepack.runner.native.build import lay_interfaces
from edgepack_engine.libembed import license_entries, link, needs_no_libc, sources_of
from edgepack_single.api import write_zip

LINKED = "base/linked.h"
CODE, DATA, LIBRARY = "libembed.o", "bundle.o", "lib/libembed.a"
INTERFACES = ("include/embed.h", "lib/pkgconfig/libembed.pc")
MODEL = ("file", "tokenizer", "head")
"""Files that libembed reads, as the manifest's section of the model names them."""
ASSEMBLY = """    .section .rodata.edgepack_bundle, "a", %progbits
    .balign 64
    .globl edgepack_bundle
    .hidden edgepack_bundle
edgepack_bundle:
    .incbin "bundle.zip"
    .globl edgepack_bundle_size
    .hidden edgepack_bundle_size
    .balign 8
edgepack_bundle_size:
    .quad edgepack_bundle_size - edgepack_bundle - {padding}
    .section .note.GNU-stack, "", %progbits
"""
LEVEL, WINDOW = 9, 27
"""The widest that `tar` and `zstd` unpack unasked: the model is in the package twice, and hardly sent twice."""
MOST = 1 << 30
"""Bytes of a model that code reaches wherever the linker puts it."""


@dataclass(frozen=True, kw_only=True)
class StaticLibrary:
    """The packager (``edgepack.api.axes.Packager``)."""

    platform: Platform

    def file_name(self, bundle: Bundle) -> str:
        """E.g. ``all-MiniLM-L6-v2-linux-x86-fast-static.tar.zst``."""
        return f"{bundle.name}-static.tar.zst"

    def pack(self, bundle: Bundle, destination: Path, *, context: BuildContext) -> None:
        """Write the package; the same bundle gives the same bytes. Raises ``UsageError``, ``MissingToolError``, ``ToolError``."""
        work, top = context.work_dir / "static-library", f"{bundle.name}-static"
        work.mkdir(exist_ok=True)
        _bring_data(bundle, f"{self.platform.arch}-linux-musl", work, context=context)
        texts = sources_of(bundle)
        texts[LINKED] = texts[LINKED].replace("LINKED = false", "LINKED = true")
        code = link(texts, CODE, platform=self.platform, context=context)
        lay_interfaces(work)
        (work / LIBRARY).unlink(missing_ok=True)
        objects = [code / CODE, work / DATA]
        context.run([zig_program(), "ar", "rcsD", work / LIBRARY, *objects])
        with destination.open("wb") as out:
            added = license_entries(bundle, code, f"{top}/LICENSES", context=context)
            entries = chain(_own(bundle, work, top), added)
            write_tarball(out, entries, level=LEVEL, window_log=WINDOW, repeats=True)


def create_packager(target: Target) -> StaticLibrary:
    """Raises ``UsageError`` for a target whose libembed needs a C library."""
    if not needs_no_libc(target):
        raise UsageError(
            "package form static-library requires the engine, on x86-64 or arm64 under Linux",
            hint="--target linux-x86-fast or linux-arm64-fast",
        )
    return StaticLibrary(platform=target.platform)


def _bring_data(bundle: Bundle, platform: str, work: Path, *, context: BuildContext) -> None:
    """Assemble an object that is the manifest and what libembed reads beside it."""
    model = bundle.manifest["model"]
    names = ("manifest.json", *(model[key] for key in MODEL if model.get(key)))
    with (work / "bundle.zip").open("wb") as out:
        write_zip(out, [(name, bundle.directory / name, False) for name in names])
        size = out.tell()
    if size > MOST:
        raise UsageError(
            f"a model of {size / 1e9:.1f} GB is too large to be linked into a program",
            hint="1 GB at most; --as single takes 4 GB",
        )
    (work / "bundle.s").write_text(ASSEMBLY.format(padding=-size % 8), encoding="utf-8")
    compiler: list[str | Path] = [zig_program(), "clang", "-target", platform]
    context.run([*compiler, "-c", "bundle.s", "-o", DATA], cwd=work)


def _own(bundle: Bundle, work: Path, top: str) -> Iterator[TarEntry]:
    for name in sorted((LIBRARY, *INTERFACES)):
        yield TarEntry(name=f"{top}/{name}", source=work / name)
    for entry in bundle_entries(bundle, top=f"{top}/bundle"):
        if isinstance(entry.source, Path) and entry.source.is_file():
            yield entry
