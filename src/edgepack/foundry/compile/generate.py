"""What is special about a runtime: copies of sources, rewritten for it, compiled in the place of upstream's."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from edgepack.errors import ToolError
from edgepack.files.store import written_beside
from edgepack.foundry.compile.archive import KernelArchive
from edgepack.foundry.compile.objects import CompileJob, identity_of
from edgepack.foundry.compile.overlay import own_file
from edgepack.foundry.patch import OTHER_SOURCES, Change, Patch, RuntimeRequest


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """The objects that a runtime's operators and types change."""

    archive: KernelArchive
    jobs: Mapping[str, CompileJob]
    """Unit → how it is compiled for this runtime."""
    roots: tuple[str, ...]
    """Units that are linked in any case."""
    kernels: tuple[str, ...]
    """Symbols of the kernels that stayed."""

    def object_of(self, name: str) -> Path:
        """The object of a unit, in its special form where it has one."""
        return (self.jobs.get(name) or self.archive.job(name)).object


def generate(archive: KernelArchive, request: RuntimeRequest) -> Reduction:
    """Rewrite what the request changes, and say what has to be compiled with it.

    Raises ``UnsupportedModelError`` for an operator that has no kernel, ``ToolError`` for a patch that does not find
    what it rewrites.
    """
    changes: dict[str, Change] = {}
    roots: list[str] = []
    for patch in archive.patches():
        if patch.applies(request):
            changed = dict(_changes(archive, patch, request, changes))
            changes |= changed
            roots += changed if patch.root else ()
    rewritten = [text for root in roots if (text := changes[root].text) is not None]
    return Reduction(
        archive=archive,
        jobs={name: _job(archive, name, change) for name, change in changes.items()},
        roots=tuple(roots),
        kernels=archive.release.kernels(rewritten, request.needs),
    )


def _changes(
    archive: KernelArchive, patch: Patch, request: RuntimeRequest, earlier: Mapping[str, Change]
) -> Iterator[tuple[str, Change]]:
    """The units that a patch changes, each with what earlier patches made of it."""
    units = archive.patched_units(patch)
    if not units:
        raise ToolError(
            f"no unit of ONNX Runtime {archive.release.version} is compiled from {patch.file}: "
            f"{patch.name} finds nothing",
            hint=OTHER_SOURCES,
        )
    header = own_file(archive.tree, patch.file).read_text() if patch.readers else ""
    for name, named in units.items():
        before = earlier.get(name, Change())
        flags, origin = (*before.flags, *patch.flags), archive.origin(name)
        if patch.readers:
            text = patch.rewritten(header, replace(request, named=named), origin=origin)
            if text != header:
                yield name, Change(text=text, file=patch.file, is_source=False, flags=flags)
        elif patch.rewrite is None:
            yield name, replace(before, flags=flags)
        else:
            text = archive.sources[name].read_text() if before.text is None else before.text
            text = patch.rewritten(text, request, origin=origin)
            yield name, Change(text=text, file=patch.file, flags=flags)


def _job(archive: KernelArchive, name: str, change: Change) -> CompileJob:
    generated = None if change.text is None else _generated_folder(archive, change.text, change.file)
    return archive.job(name, change, generated=generated)


def _generated_folder(archive: KernelArchive, text: str, path: str) -> Path:
    """Write a generated file; the folder, of this content's own, that it lies below."""
    folder = archive.folder / "generated" / identity_of(text)[:16]
    file = folder / path
    if not file.is_file() or file.read_text() != text:
        with written_beside(file) as beside:
            beside.write_text(text)
    return folder
