"""What a program is compiled of: its own sources, each an object that every program with the same text and flags of it shares."""

import json
import os.path
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from edgepack.context import BuildContext
from edgepack.files.store import written_beside
from edgepack.foundry.compile.objects import CompileJob, identity_of
from edgepack.foundry.toolchain import NativeToolchain
from edgepack.foundry.units import LANGUAGES, ProgramSources

FLAGS = (
    "-std=c++17",
    "-Oz",
    "-DNDEBUG",
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Wconversion",
    "-fPIC",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-fstack-protector",
)

CXX_ONLY = ("-std=c++", "-fno-rtti", "-fvisibility-inlines", "-fexperimental-relative-c++")
"""What flags of C++ begin with that mean nothing in C."""


def flags_for(name: str, flags: Iterable[str]) -> list[str]:
    """Those of the flags for C++ that count for a source; of others' there are no warnings."""
    counted = [flag for flag in flags if name.endswith(".cc") or not flag.startswith(CXX_ONLY)]
    return [*counted, "-w"] if name.startswith("third_party/") else counted


OTHERS = "include"
"""Where others' headers lie, beside one's own sources: searched like a system's, and taken as a whole."""
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[ \t]*(?:[\"<]([^\">\n]+)[\">])?", re.MULTILINE)


HIDDEN = re.compile(r"(?:#|%:|\?\?=).*\b(?:include|include_next|import|__has_\w+|embed[ \t]*[<\"])")
"""What else may make a compiler read a file: behind a comment, by digraphs, by other directives."""

PROGRAMS = "programs"
"""Where programs' objects lie in the folder that they share, and how a program's map names them."""


@dataclass(frozen=True, kw_only=True)
class RuntimeHeaders:
    """ONNX Runtime's headers, which only some of the sources read."""

    folders: Sequence[Path]
    identity: str
    """A digest of them."""

    def are_read(self, texts: Iterable[str]) -> bool:
        """Whether one of these texts includes one, or may."""
        found = [_includes(text) for text in texts]
        return any(
            each is None or any((folder / place).is_file() for folder in self.folders for place in each)
            for each in found
        )


def objects_folder(toolchain: NativeToolchain, *, context: BuildContext) -> Path:
    """The folder in the store where all programs of a toolchain have their objects: whoever compiles holds its lock."""
    protection = {"flags": " ".join(toolchain.protection.flags)} if toolchain.protection else {}
    return context.store.folder("standalone-objects", {"toolchain": toolchain.identity, **protection})


def source_jobs(
    sources: ProgramSources,
    room: Path,
    *,
    command: Callable[[str], Sequence[str | Path]],
    flags: Callable[[str], Sequence[str]],
    headers: RuntimeHeaders | None = None,
    identity: str,
) -> list[CompileJob]:
    """An object for each unit, in the order of ``units``. The text is laid below ``room``, where programs share what is compiled.

    An object is named by what its text includes and by its flags: a program with one more feature compiles that feature alone.
    ``command``: language, ``C`` or ``CXX`` → the compiler; ``flags``: of a unit, by its place; ``identity``: a digest of the compiler.
    """
    text = lay_sources(sources, room)
    places = [f"-ffile-prefix-map={text}=", f"-I{text}"]
    if any(name.startswith(f"{OTHERS}/") for name in sources.files):
        places.append(f"-isystem{text / OTHERS}")
    jobs = []
    for name in sources.units:
        counted, read = flags(name), closure(name, sources.files)
        theirs = headers if headers is not None and headers.are_read(read.values()) else None
        made_of = identity_of(
            identity, name, json.dumps(read), *counted, *([theirs.identity] if theirs else [])
        )
        compiler = map(str, command(LANGUAGES[Path(name).suffix]))
        searched = [f"-isystem{folder}" for folder in theirs.folders] if theirs else []
        jobs.append(
            CompileJob(
                name=name,
                object=room / made_of[:16] / f"{name}.o",
                command=(*compiler, *counted, *places, *searched, "-c", str(text / name)),
                identity=made_of,
            )
        )
    return jobs


def lay_sources(sources: ProgramSources, room: Path) -> Path:
    """The folder with these texts and no others."""
    folder = room / "text" / identity_of(json.dumps(dict(sorted(sources.files.items()))))[:16]
    for name, text in sources.files.items():
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != text:
            with written_beside(folder / name) as beside:
                beside.write_text(text, encoding="utf-8")
    return folder


def closure(name: str, files: Mapping[str, str]) -> dict[str, str]:
    """Files that a compiler may read for one of them: place → text, sorted. All, where an include is a macro, or is
    written in a way that is not looked through.
    """
    found: dict[str, str] = {}
    open_ones = [name]
    while open_ones:
        place = open_ones.pop()
        if place in found:
            continue
        found[place] = files[place]
        if place.startswith(f"{OTHERS}/"):
            open_ones += [each for each in files if each.startswith(f"{OTHERS}/")]
            continue
        includes = _includes(files[place])
        if includes is None:
            return dict(sorted(files.items()))
        for included in includes:
            open_ones += [each for each in _meant(included, place) if each in files]
    return dict(sorted(found.items()))


def _includes(text: str) -> list[str] | None:
    """Places that a text includes; nothing is known where one is a macro, or written in a way that is not looked through."""
    text = text.replace("\\\n", "")
    found = INCLUDE.findall(text)
    return found if all(found) and not HIDDEN.search(INCLUDE.sub("", text)) else None


def _meant(included: str, by: str) -> list[str]:
    """Places where a compiler looks for an include: beside the one that includes it, from the root, among the headers of others."""
    beside = PurePosixPath(by).parent / included
    return [os.path.normpath(place) for place in (beside, included, f"{OTHERS}/{included}")]
