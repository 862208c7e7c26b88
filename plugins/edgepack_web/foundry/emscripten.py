"""Emscripten and binaryen without root: Debian's packages, unpacked into the store, run by this machine's Python and Node.

clang and the linker are zig's, of the LLVM release that Debian's Emscripten is made for. binaryen's programs run on the
C library that comes with them, so that the system's may be older.
"""

import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from edgepack.api import BuildContext, MissingToolError
from edgepack.api.axes import DownloadError, HashMismatchError
from edgepack.api.kit import Archive, Package, fetch_archives, load_toml, zig_program
from edgepack.fetch.debian import fetch_packages
from edgepack.fetch.unpack import unpack_download
from edgepack.foundry.sources.pinned import read_archive, store_path
from edgepack_web.foundry.objcopy import SCRIPT as OBJCOPY
from edgepack_web.npm.node import find_node

SCHEMA = "1"
"""Changes when the same packages are laid out otherwise."""
HINT = (
    'use a runtime that needs no compiler: runtime = "stock" in the target\'s [options]; '
    "or build on Debian or Ubuntu, x86-64"
)


@dataclass(frozen=True, kw_only=True)
class Emscripten:
    """A folder with Emscripten in it, and how its programs are run."""

    root: Path
    version: str
    zig: Path
    zig_version: str

    @property
    def folder(self) -> Path:
        return self.root / "usr/share/emscripten"

    @property
    def sysroot(self) -> Path:
        """Headers and system libraries."""
        return self.folder / "cache/sysroot"

    @property
    def libraries(self) -> Path:
        return self.sysroot / "lib/wasm32-emscripten"

    def link_command(self) -> list[str | Path]:
        return [sys.executable, "-E", "-s", self.folder / "em++.py"]

    def environment(self, work: Path) -> dict[str, str]:
        """For ``link_command``; small programs that stand for LLVM's are written into ``work``."""
        config = _configure(self, work)
        return {"EM_CONFIG": str(config), "EMCC_SKIP_SANITY_CHECK": "1", "EMCC_TEMP_DIR": str(work)}


@dataclass(frozen=True, kw_only=True)
class CompilePlan:
    """Downloads for the toolchain, for people to know beforehand."""

    missing: Sequence[str]
    download: int
    """Bytes."""
    unpacked: int
    """Bytes, about."""
    folder: Path

    def lines(self) -> list[str]:
        """Lines that say it."""
        if not self.missing:
            return [f"all packages are in the cache; unpacked below {self.folder}"]
        return [
            f"fetches {len(self.missing)} of Debian's packages, {self.download / 1e6:.0f} MB, and binaryen's C library:",
            *(f"  {name}" for name in self.missing),
            f"unpacks what is needed of them, about {self.unpacked / 1e6:.0f} MB, below {self.folder}; the system stays as it is",
        ]


UNPACKED = 90_000_000


def installation_plan(context: BuildContext) -> CompilePlan:
    """Downloads of ``emscripten``, and the folder that they go to."""
    table = _catalogue()
    archives = _archives(table)
    missing = [archive for archive in archives if not store_path(archive, context).is_file()]
    sizes = {entry["file"]: int(entry["size"]) for part in _PARTS for entry in table[part]["packages"]}
    return CompilePlan(
        missing=[archive.file for archive in missing],
        download=sum(sizes[archive.file] for archive in missing),
        unpacked=UNPACKED,
        folder=context.store.root / "emscripten",
    )


def emscripten(*, context: BuildContext) -> Emscripten:
    """The toolchain in the store, fetched and unpacked when it is not there yet: 250 MB once, no root.

    Raises ``MissingToolError`` where it cannot be had, with what to do instead.
    """
    table = _catalogue()
    zig = zig_program()
    find_node()
    root = _installed(table, context)
    words = context.run([zig, "version"]).split()
    return Emscripten(root=root, version=str(table["version"]), zig=zig, zig_version=words[0])


_PARTS = ("emscripten", "binaryen")


def _installed(table: Mapping[str, Any], context: BuildContext) -> Path:
    if platform.machine() != "x86_64" or sys.platform != "linux":
        raise MissingToolError("no Emscripten is known for this machine", hint=HINT)
    archives = _archives(table)
    inputs = {"schema": SCHEMA, "catalogue": repr([table[part] for part in _PARTS])} | {
        archive.file: archive.sha256 for archive in archives
    }

    def make(folder: Path) -> None:
        _lay_out(folder, table, archives, context)

    # Emscripten keeps what it has found out of its libraries beside them.
    return context.store.cached("emscripten", inputs, make, grows=True)


def _lay_out(
    folder: Path, table: Mapping[str, Any], archives: Sequence[Archive], context: BuildContext
) -> None:
    try:
        files = fetch_archives([(archive,) for archive in archives], context=context)
        runtime = _runtime_packages(table["binaryen"]["runtime"], context)
    except (DownloadError, HashMismatchError, MissingToolError) as error:
        raise MissingToolError(f"Emscripten is not available here: {error.message}", hint=HINT) from error
    compiler = table["emscripten"]
    libraries = [
        f"{compiler['folder']}/cache/sysroot/lib/wasm32-emscripten/{n}" for n in compiler["libraries"]
    ]
    with context.progress("unpack Emscripten", len(files) + len(runtime), unit="packages") as bar:
        for file in (*files, *runtime):
            unpack_download(file, folder, keep=[*compiler["keep"], *libraries])
            bar.advance()
    # Emscripten's own modules look for acorn as Node does.
    (folder / compiler["folder"] / "node_modules").symlink_to("../nodejs")
    shutil.rmtree(folder / "usr/lib/x86_64-linux-gnu/gconv", ignore_errors=True)
    _write_programs(folder, table["binaryen"])


def _runtime_packages(table: Mapping[str, Any], context: BuildContext) -> list[Path]:
    if context.offline:
        raise DownloadError("--offline forbids downloads", hint=HINT)
    folder = context.work_dir / "binaryen-runtime"
    fetch_packages(
        [Package(suite=table["suite"], kind="deb", name=name) for name in table["packages"]],
        folder,
        context=context,
    )
    found = sorted(folder.glob("*.deb"))
    if len(found) != len(table["packages"]):
        raise DownloadError(f"the mirror lacks one of {', '.join(table['packages'])}", hint=HINT)
    return found


def _write_programs(folder: Path, table: Mapping[str, Any]) -> None:
    """Scripts that run binaryen's programs on the C library beside them, wherever the folder is."""
    loader, libraries = table["runtime"]["loader"], table["runtime"]["libraries"]
    (folder / "bin").mkdir()
    for name in table["programs"]:
        script = folder / "bin" / name
        script.write_text(
            '#!/bin/sh\nroot=$(dirname "$(dirname "$(readlink -f "$0")")")\n'
            f'exec "$root/{loader}" --library-path "$root/{libraries}" "$root/usr/bin/{name}" "$@"\n'
        )
        script.chmod(0o755)


def _configure(emscripten: Emscripten, work: Path) -> Path:
    """Emscripten's configuration, and zig's programs under the names that it calls."""
    programs = work / "llvm/bin"
    programs.mkdir(parents=True, exist_ok=True)
    zig = emscripten.zig
    lines = {
        "clang": f'exec "{zig}" clang "$@"',
        "clang++": f'exec "{zig}" clang --driver-mode=g++ "$@"',
        "wasm-ld": f'exec "{zig}" wasm-ld "$@"',
        "llvm-ar": f'exec "{zig}" ar "$@"',
        "llvm-objcopy": f'exec "{sys.executable}" -I "{programs / "objcopy.py"}" "$@"',
    }
    (programs / "objcopy.py").write_text(OBJCOPY)
    for name, line in lines.items():
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    config = work / "emscripten.config"
    settings = {
        "LLVM_ROOT": str(programs),
        "BINARYEN_ROOT": str(emscripten.root),
        "NODE_JS": str(find_node()),
        "CACHE": str(emscripten.folder / "cache"),
    }
    text = "".join(f"{name} = {value!r}\n" for name, value in settings.items())
    config.write_text(text + "FROZEN_CACHE = True\nCLANG_ADD_VERSION = ''\nLLVM_ADD_VERSION = ''\n")
    return config


def _archives(table: Mapping[str, Any]) -> list[Archive]:
    return [read_archive(entry) for part in _PARTS for entry in table[part]["packages"]]


def _catalogue() -> dict[str, Any]:
    return load_toml(resources.files("edgepack_web.foundry") / "data" / "emscripten.toml")
