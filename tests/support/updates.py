"""Two bundles of which the second updates the first: a file stays, one is renamed, one changes a little, two change wholly, one is gone."""

import random
import shutil
from pathlib import Path

from edgepack.bundles.manifest import open_bundle
from edgepack.records.bundle import Bundle
from tests.support.signed import list_files, write_small_bundle

LARGE = 200_000
"""Bytes that cannot be compressed."""


def two_bundles(folder: Path) -> tuple[Bundle, Bundle]:
    """``old/small`` and ``new/small`` in a folder."""
    old, new = folder / "old" / "small", folder / "new" / "small"
    write_small_bundle(old)
    weights = bytearray(random.Random(4).randbytes(LARGE))
    (old / "model/model.onnx").write_bytes(weights)
    (old / "model/words.txt").write_bytes(b"words\n" * 40)
    shutil.copytree(old, new, symlinks=True)
    (old / "model/gone.txt").write_text("gone\n")
    weights[LARGE // 2 : LARGE // 2 + 9] = b"different"
    (new / "model/model.onnx").write_bytes(weights)
    (new / "model/words.txt").rename(new / "LICENSES/words.txt")
    (new / "LICENSES/new.txt").write_text("a new text\n")
    (new / "model/tokenizer.bin").write_bytes(b"quite other bytes")
    (new / "embed").write_bytes(b"#!/bin/sh\necho new\n")
    return open_bundle(list_files(old)), open_bundle(list_files(new))
