"""Source trees of ONNX Runtime that a user brings: recognized, and read file by file."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from edgepack.errors import UsageError
from edgepack.fetch.unpack import unpack_download
from edgepack.files.archives import SUFFIXES
from edgepack.foundry.sources.tree import HEADER

VERSION_FILE = "VERSION_NUMBER"
MARKS = (
    VERSION_FILE,
    "cmake/CMakeLists.txt",
    "cmake/deps.txt",
    HEADER,
    "onnxruntime/core/session/onnxruntime_c_api.cc",
    "onnxruntime/core/providers/cpu",
    "onnxruntime/core/mlas/lib",
    "onnxruntime/contrib_ops/cpu",
)
"""What every source tree has."""
INCLUDED = ("onnxruntime", "include/onnxruntime")
"""The folders that files are named below, as ONNX Runtime's own sources include them."""
_SOURCES = (".c", ".cc", ".cpp", ".h", ".hpp", ".inc", ".S", ".s")
_API = re.compile(r"^#define ORT_API_VERSION (\d+)", re.M)
_BRING = "name the folder, or the .tar.gz or .zip, that holds all of one release's sources"


@dataclass(frozen=True, kw_only=True)
class Tree:
    """The files of ONNX Runtime itself."""

    folder: Path
    skip: Sequence[str] = ()
    """Folders that are not looked into."""
    _texts: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def version(self) -> str:
        return (self.folder / VERSION_FILE).read_text(encoding="utf-8", errors="replace").strip()

    @cached_property
    def files(self) -> Mapping[str, Path]:
        """Source files by their names as others include them, sorted."""
        found: dict[str, Path] = {}
        for below in INCLUDED:
            root = self.folder / below
            for path in sorted(root.rglob("*")):
                name = path.relative_to(root).as_posix()
                if path.suffix in _SOURCES and path.is_file() and not self._is_skipped(f"{below}/{name}"):
                    found.setdefault(name, path)
        return dict(sorted(found.items()))

    def has(self, path: str) -> bool:
        """Whether there is a file or folder of this path below the tree's own folder."""
        return (self.folder / path).exists()

    def text(self, name: str) -> str:
        """Of a source file."""
        if name not in self._texts:
            self._texts[name] = self.files[name].read_text(encoding="utf-8", errors="replace")
        return self._texts[name]

    def texts(self) -> Iterator[tuple[str, str]]:
        """Every source file with its text."""
        return ((name, self.text(name)) for name in self.files)

    def _is_skipped(self, path: str) -> bool:
        return any(path.startswith(f"{folder}/") for folder in self.skip)


def bring(sources: Path, *, skip: Sequence[str] = (), work_dir: Path) -> Tree:
    """The tree in a folder or an archive, which is unpacked into ``work_dir``.

    Raises ``UsageError`` for what is no source tree of ONNX Runtime, or half of one, and ``DownloadError`` for an
    archive that is damaged.
    """
    folder = sources
    if sources.is_file() and sources.name.endswith((*SUFFIXES, ".tar.bz2")):
        folder = work_dir / "brought"
        unpack_download(sources, folder)
        inner = list(folder.iterdir())
        folder = inner[0] if len(inner) == 1 and inner[0].is_dir() else folder
    if not folder.is_dir():
        raise UsageError(f"there are no sources {sources}", hint=_BRING)
    lacking = [mark for mark in MARKS if not (folder / mark).exists()]
    if lacking:
        raise _not_whole(sources, folder, lacking)
    tree = Tree(folder=folder, skip=skip)
    _check_version(tree, sources)
    return tree


def _not_whole(sources: Path, folder: Path, lacking: Sequence[str]) -> UsageError:
    inside = next((path.parent for path in sorted(folder.glob(f"*/{VERSION_FILE}"))), None)
    if len(lacking) == len(MARKS) or inside:
        hint = f"ONNX Runtime lies in {inside}: name that folder" if inside else _BRING
        return UsageError(f"{sources} holds no sources of ONNX Runtime: there is no {lacking[0]}", hint=hint)
    named = ", ".join(lacking[:3]) + (f" and {len(lacking) - 3} more" if len(lacking) > 3 else "")
    return UsageError(
        f"{sources} is not a whole source tree of ONNX Runtime: it lacks {named}",
        hint="unpack the release's archive again, or check out all of its files",
    )


def _check_version(tree: Tree, sources: Path) -> None:
    if not re.fullmatch(r"\d+\.\d+\.\d+", tree.version):
        raise UsageError(
            f"{VERSION_FILE} of {sources} says {tree.version[:40]!r}, which is no version of ONNX Runtime",
            hint="it holds a release's version, e.g. 1.22.0",
        )
    header = (tree.folder / HEADER).read_text(encoding="utf-8", errors="replace")
    said = _API.search(header)
    if said is None or said[1] != tree.version.split(".")[1]:
        api = f"API {said[1]}" if said else "no API"
        raise UsageError(
            f"{sources} is of two releases: {VERSION_FILE} says {tree.version}, {HEADER} {api}",
            hint="unpack one release's archive into an empty folder",
        )
