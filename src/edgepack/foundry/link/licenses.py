"""The licence texts of what is linked into a library."""

import shutil
from collections.abc import Collection
from importlib.resources import files
from pathlib import Path

from edgepack.foundry.compile.archive import KernelArchive

_HEADERS = ("date", "eigen", "gsl", "json", "mp11", "onnx", "safeint")
"""Compiled in through their headers, whatever is linked."""
_TARGETS = {"abseil": "absl_", "flatbuffers": "flatbuffers", "protobuf": "libprotobuf", "re2": "re2"}
"""Part → what its CMake targets begin with. Their headers are compiled in everywhere too."""
_STORED = {"mp11": "mp11.txt"}
"""Debian's file for mp11 is that of all of Boost, two megabytes: its own licence is kept here instead."""


def write_runtime_licenses(archive: KernelArchive, units: Collection[str], folder: Path) -> tuple[Path, ...]:
    """One text a component, named after it with its version; for ONNX Runtime, its headers' and its linked libraries'."""
    folder.mkdir(parents=True, exist_ok=True)
    linked = {part for part, prefix in _TARGETS.items() if any(unit.startswith(prefix) for unit in units)}
    written = [
        _write(archive, part, folder)
        for part in sorted({"onnxruntime", *_HEADERS, *linked})
        if part in archive.tree.parts
    ]
    for name, text in archive.toolchain.licenses().items():
        shutil.copyfile(text, folder / name)
        written.append(folder / name)
    return tuple(written)


def _write(archive: KernelArchive, name: str, folder: Path) -> Path:
    part = archive.tree.parts[name]
    root = archive.tree.folder / name
    texts = [f"{part.name} {part.version} ({part.license})\n{part.upstream}\n"]
    if name in _STORED:
        texts.append(
            (files("edgepack.foundry.link") / "data/licenses" / _STORED[name]).read_text(encoding="utf-8")
        )
    else:
        found = (root / file for file in part.license_files if (root / file).is_file())
        texts += [file.read_text(encoding="utf-8", errors="replace") for file in found]
    target = folder / f"{name}-{part.version}.txt"
    target.write_text("\n".join(texts), encoding="utf-8")
    return target
