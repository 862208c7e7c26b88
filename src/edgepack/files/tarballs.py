"""Reading ``.tar.zst`` files of unknown soundness: bundles' archives and kernel archives that travel."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgepack.errors import BundleError


@contextmanager
def opened_tarball(file: Path, *, what: str, hint: str) -> Iterator[tarfile.TarFile]:
    """The file as a stream of members; whatever is wrong with its bytes becomes a ``BundleError``.

    ``what`` it should be goes into the message, ``hint`` says what to do.
    """
    import zstandard

    try:
        stream = file.open("rb")
    except OSError as error:
        raise BundleError(f"{file} cannot be read: {error.strerror}") from error
    try:
        with (
            stream,
            zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True) as unpacked,
            tarfile.open(fileobj=unpacked, mode="r|") as tar,
        ):
            yield tar
    except (tarfile.TarError, zstandard.ZstdError, EOFError) as error:
        raise BundleError(f"{file} is not {what}, or is damaged: {error}", hint=hint) from error
