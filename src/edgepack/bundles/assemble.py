"""Lay a bundle's folder out: program, model, library, golden vectors, licences, manifest."""

import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgepack.bundles import golden
from edgepack.bundles.components import NESTED, Component, components_of
from edgepack.bundles.floor import require_compatible_elf
from edgepack.bundles.manifest import (
    GOLDEN,
    LICENSES,
    LINK,
    MANIFEST,
    SIGNATURE,
    TOKENIZER,
    build_manifest,
    bundle_name,
    cpu_model_path,
    file_entry,
    is_part_name,
    model_path,
    tokenizer_path,
    write_manifest,
)
from edgepack.bundles.model_card import model_card
from edgepack.bundles.model_section import HEAD
from edgepack.bundles.notices import write_notices
from edgepack.bundles.sbom import SBOM, sbom
from edgepack.context import BuildContext
from edgepack.errors import BundleError
from edgepack.files.elf import elf_files
from edgepack.files.folder import BadFolder, files_below
from edgepack.files.hardening import weaknesses
from edgepack.files.store import ENTRY_FILE, disk_errors
from edgepack.models.embedder import embedder_id
from edgepack.models.heads.classification import head_weights
from edgepack.models.read.tokenizer import minimal_json
from edgepack.plugins.supported_outputs import require_outputs
from edgepack.records.bundle import Bundle, RunnerArtifact
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.runtime import RuntimeArtifact
from edgepack.records.target import Target

OWN = (MANIFEST, SIGNATURE, GOLDEN, LICENSES)
"""Names in a bundle's folder that no runner's files may have."""


def assemble(
    *,
    target: Target,
    model: PreparedModel,
    runtime: RuntimeArtifact | None,
    runner: RunnerArtifact,
    made_by: Mapping[str, Any] | None = None,
    checks: Sequence[str] = (),
    source: ModelSource | None = None,
    folder: Path,
    context: BuildContext,
) -> Bundle:
    """Lay a bundle out in an empty folder. ``source`` is the model as it was found, where ``model`` may say otherwise.

    Same inputs, same bytes: modes are 0755 and 0644, nothing in it tells the time or the host.
    Raises ``OutputError`` when the folder cannot be written, ``DiskFullError``, ``FloorError`` when a file does not run
    on the target's platform, ``BundleError`` when a library is missing.
    """
    with disk_errors(folder):
        _lay_runner(runner, folder)
        _require_places(folder)
        _lay_model(model, runner, folder)
        found = source or model.source
        vectors = golden.golden_vectors(model, found, context=context)
        (folder / GOLDEN).write_bytes(golden.golden_json(vectors))
        passes = dict((made_by or {}).get("passes", {}))
        embedder = embedder_id(
            found,
            model,
            runtime,
            target,
            (golden.TEXTS, vectors),
            passes=passes,
            exact=runner.exact,
            context=context,
        )
        for library in _libraries(runtime, runner):
            _copy(library, folder / "lib" / library.name)
        components = components_of(model.source, runtime, runner)
        write_notices(folder / LICENSES, components)
        _settle_modes(folder)
        provider = runtime and runtime.provider
        require_compatible_elf(
            folder, target.platform, device=(*provider.libraries, *provider.system) if provider else ()
        )
        files = _list(folder, model, runner)
        bill = folder / LICENSES / SBOM
        bill.write_bytes(_bill(components, files, target=target, model=model, runtime=runtime, runner=runner))
        bill.chmod(0o644)
        files.append(file_entry(bill, root=folder, part="licenses"))
        manifest = build_manifest(
            target=target,
            model=model,
            runtime=runtime,
            runner=runner,
            embedder=embedder,
            made_by=made_by,
            checks=checks,
            files=files,
        )
        write_manifest(folder, manifest)
        (folder / MANIFEST).chmod(0o644)
    if soft := [path.name for path in elf_files(folder) if weaknesses(path)]:
        more = f" and {len(soft) - 1} more" if len(soft) > 1 else ""
        context.note(f"not hardened: {soft[-1]}{more}")
    context.note(f"{len(files)} files, {sum(file['size'] for file in files) / 1e6:.1f} MB")
    return Bundle(directory=folder, manifest=manifest)


def _list(folder: Path, model: PreparedModel, runner: RunnerArtifact) -> list[dict[str, Any]]:
    return [
        file_entry(path, root=folder, part=_part_of(path.relative_to(folder).as_posix(), model, runner))
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    ]


def _bill(
    components: Sequence[Component],
    files: Sequence[Mapping[str, Any]],
    *,
    target: Target,
    model: PreparedModel,
    runtime: RuntimeArtifact | None,
    runner: RunnerArtifact,
) -> bytes:
    texts = (*(runtime.licenses if runtime and runtime.library else ()), *runner.licenses)
    shipped = [file for file in files if file["part"] == "model"]
    return sbom(
        components,
        name=bundle_name(model.source.name, target.name),
        summary=target.summary,
        model_card=model_card(model, target.model, shipped),
        kind=runtime.kind if runtime else None,
        operators=runtime.provides if runtime else None,
        nested=[path for path in texts if path.name.endswith(NESTED)],
        files=[file for file in files if file["part"] != "licenses" and file["mode"] != LINK],
    )


def _libraries(runtime: RuntimeArtifact | None, runner: RunnerArtifact) -> tuple[Path, ...]:
    """Files of ``lib/``: none where the runtime is linked into the program or placed by the runner."""
    if runtime is None or runtime.library is None or runner.placement is not None:
        return ()
    return (runtime.library, *runtime.companions)


def _lay_model(model: PreparedModel, runner: RunnerArtifact, folder: Path) -> None:
    """The model, its head if it has one, and its tokenizer."""
    require_outputs(model.source, runner.outputs, f"the {runner.kind} program of this target")
    if head := model.source.head:
        (folder / HEAD).parent.mkdir(parents=True, exist_ok=True)
        layer = head_weights(head, model.source.dimension)
        (folder / HEAD).write_bytes(b"".join(part.astype("<f4").tobytes() for part in layer))
    if runner.placement is None:
        _copy(model.file, folder / model_path(model, runner))
        if model.cpu_file:
            _copy(model.cpu_file, folder / cpu_model_path(model.cpu_file))
        for companion in model.companions:
            _copy(companion, folder / "model" / companion.name)
        if runner.tokenizer is None:
            (folder / TOKENIZER).write_bytes(minimal_json(model.source).encode())
        else:
            _copy(runner.tokenizer, folder / tokenizer_path(runner))


def _lay_runner(runner: RunnerArtifact, folder: Path) -> None:
    """The runner's files, into the top folder. A link within the runner stays one, or becomes what it names by an absolute path."""
    try:
        for found in files_below(runner.directory):
            place = folder / found.path
            if found.path.split("/")[0] in OWN:
                raise BundleError(
                    f"the runner's folder has a {found.path}, which is a name of edgepack's own"
                )
            if found.link:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(found.link)
            elif place.name != ENTRY_FILE:
                _copy(runner.directory / found.path, place)
    except BadFolder as error:
        raise BundleError(f"the runner's folder: {error}") from error


def _require_places(folder: Path) -> None:
    """Raise ``BundleError`` where the runner has something in the place of a folder that other parts go into."""
    for name in ("model", "lib"):
        place = folder / name
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            raise BundleError(f"the runner's {name} is no folder, and other parts of the bundle go into one")


def _copy(file: Path, place: Path) -> None:
    """Copy, never link: an edit in the bundle must not reach the cache."""
    if place.exists():
        raise BundleError(f"two parts of the bundle have the same path {place.name}; one of them is {file}")
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, place)
    if file.stat().st_mode & stat.S_IXUSR:
        place.chmod(0o755)


def _settle_modes(folder: Path) -> None:
    """0755 for folders and programs, 0644 for the rest, whatever umask and file system made of them."""
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)


def _part_of(path: str, model: PreparedModel, runner: RunnerArtifact) -> str:
    if (part := runner.parts.get(path)) is not None:
        if not is_part_name(part):
            raise BundleError(
                f"the runner calls {path} a part {part!r}",
                hint="a part is a short lower-case word, e.g. firmware",
            )
        return part
    named = {model_path(model, runner): "model", tokenizer_path(runner): "tokenizer", GOLDEN: "golden"}
    if path not in named and (runner.directory / path).exists():
        return "runner"
    folders = {"lib": "runtime", "model": "model", LICENSES: "licenses"}
    return named.get(path) or folders.get(path.partition("/")[0]) or "runner"
