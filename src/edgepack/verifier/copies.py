"""Copies of a bundle in which a file is something else: what they answer tells what the bundle's vectors are made of."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgepack.bundles.manifest import MANIFEST, file_entry, write_manifest
from edgepack.context import BuildContext
from edgepack.errors import CannotRunHere, DeviceError, DiskFullError, EdgepackError, VerificationError
from edgepack.files.store import disk_errors
from edgepack.records.bundle import Bundle

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Embed = Callable[[Bundle, Sequence[str]], Sequence[Sequence[float]]]

SAME = 0.9
"""Cosine: what comes out of a model of zeros is nowhere near."""


def require_used_files(bundle: Bundle, embed: Embed, *, context: BuildContext) -> None:
    """Raise ``VerificationError`` when a copy with zeros for a model, or for a program, gives the bundle's vectors.

    Such a program has its vectors from elsewhere: they were written down, another model lies in it, or a server is asked.
    """
    from edgepack.verifier.metrics import lowest_cosine
    from edgepack.verifier.texts.drawn import new_text

    probe = new_text()
    try:
        before = _answer(bundle, embed, probe)
    except CannotRunHere:
        return
    program = str(bundle.manifest["runner"]["program"])
    model = [file["path"] for file in bundle.manifest["files"] if file["part"] == "model"]
    for part, paths in (("model", model), ("program", [program])):
        copy = linked_copy(bundle, f"{part}-of-zeros-", context=context)
        for path in paths:
            _fill_with_zeros(copy / path)
        try:
            after = _answer(replace(bundle, directory=copy), embed, probe)
        except (DeviceError, DiskFullError):
            raise
        except (EdgepackError, CannotRunHere):
            continue  # as it must be
        if lowest_cosine(before, after) > SAME:
            raise VerificationError(
                f"the program gives the same vectors with zeros for its {part} ({', '.join(paths)}): the program does not use it",
                hint="the runner must compute each vector from the files of its bundle, and fail if they are damaged",
            )


def linked_copy(bundle: Bundle, prefix: str, *, context: BuildContext) -> Path:
    """The folder of a copy, whose files are links: replace those that are to differ, and write into none."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=context.work_dir)) / bundle.directory.name
    # Links of the files, not symbolic ones: the programs find their folder through /proc/self/exe.
    with disk_errors(folder):
        shutil.copytree(bundle.directory, folder, symlinks=True, copy_function=_link)
    return folder


def with_program(bundle: Bundle, program: Path, *, context: BuildContext) -> Bundle:
    """A copy with another program, for this host: of the same arithmetic, it makes the vectors of one that no host runs."""
    folder = linked_copy(bundle, "twin-", context=context)
    name = str(bundle.manifest["runner"]["program"])
    for path in (name, MANIFEST):
        (folder / path).unlink()
    shutil.copy(program, folder / name)
    files = [
        file_entry(folder / name, root=folder, part=str(file["part"])) if file["path"] == name else file
        for file in bundle.manifest["files"]
    ]
    here = {**bundle.manifest["target"], "platform": {"os": "linux", "arch": platform.machine()}}
    manifest = {**bundle.manifest, "files": files, "target": here}
    write_manifest(folder, manifest)
    return Bundle(directory=folder, manifest=manifest)


def _link(source: str, destination: str) -> None:
    try:
        os.link(source, destination)
    except OSError:  # another file system, or one without links
        shutil.copy(source, destination)


def _fill_with_zeros(file: Path) -> None:
    """Fill a file with as many zeros as it has bytes: the programs look at sizes when they start."""
    size, mode = file.stat().st_size, file.stat().st_mode
    file.unlink()
    with file.open("wb") as stream:
        stream.truncate(size)
    file.chmod(mode)


def _answer(bundle: Bundle, embed: Embed, probe: str) -> NDArray[np.float32]:
    """The probe's vector, float32 [1, dimension], on this host's processor where the device is missing. Raises what ``embed`` raises."""
    import numpy as np

    try:
        made = embed(bundle, [probe])
    except CannotRunHere as cannot:
        if cannot.instead is None:
            raise
        made = cannot.instead
    return np.asarray(made, np.float32)
