"""A kernel archive of a few lines of C, compiled and linked the way the real one is; also a program of its own.

``python -m tests.support.small_archive ROOT`` builds the library in the cache ROOT and prints where it is.
"""

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgepack.console import Story
from edgepack.files.store import Store, key_of
from edgepack.foundry.compile.archive import KernelArchive
from edgepack.foundry.compile.keys import archive_inputs, planned_file
from edgepack.foundry.compile.plan import COMMANDS, CONFIGURED, write_units
from edgepack.foundry.patch import RuntimeRequest
from edgepack.foundry.processors.x86_64 import X86_64
from edgepack.foundry.releases.registry import RELEASE
from edgepack.foundry.sources.tree import SourceTree, tree_inputs
from edgepack.foundry.toolchains.gcc import Gcc
from edgepack.foundry.units import Unit
from edgepack.plugins.context import HostContext, host_context
from edgepack.records.operators import Operators

GCC = shutil.which("gcc")
COUNT = 10
SOURCES = {
    f"unit{number}": (
        f"int unit{number + 1}(void); const char *where{number}(void) {{ return __FILE__; }}\n"
        f"int unit{number}(void) {{ return {number} + unit{number + 1}(); }}\n"
    )
    for number in range(COUNT)
} | {f"unit{COUNT}": f"int unit{COUNT}(void) {{ return 1; }}\n"}


def small_archive(
    store: Store, *, sources: dict[str, str] = SOURCES, digests: dict[str, str] | None = None
) -> KernelArchive:
    """Configured; nothing compiled yet."""
    digests = digests or {"onnxruntime": "0" * 64}
    # The toolchain names g++; what compiles C is found from that.
    program = Path(f"{GCC}").with_name("g++")
    toolchain = Gcc(program=program, version="12", processor=X86_64, glibc="2.28")
    tree_key = key_of(tree_inputs(digests))
    tree = SourceTree(
        folder=store.root / "source-tree" / tree_key,
        catalogue=RELEASE.catalogue,
        key=tree_key,
        digests=digests,
    )
    inputs = archive_inputs(
        RELEASE, kind="minimal", features=(), tree_key=tree_key, toolchain=toolchain.identity
    )
    folder = store.folder("kernel-archive", inputs)
    _configure(folder / "build", tree.folder)
    for name, text in sources.items():
        path = tree.folder / f"{name}.c"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    settings = RELEASE.build_settings(toolchain.platform)
    units = {
        name: Unit(name=name, source=f"@TREE@/{name}.c", language="C", flags=("-fPIC", "-g", "-I@BUILD@"))
        for name in sources
    }
    write_units(units, planned_file(folder, settings))
    return KernelArchive(
        folder=folder,
        key=key_of(inputs),
        kind="minimal",
        release=RELEASE,
        toolchain=toolchain,
        tree=tree,
        overlay=folder / "overlay/none",
        units=units,
        settings=settings,
    )


def request(needs: Operators = Operators(), **changes: Any) -> RuntimeRequest:  # noqa: B008
    """A request for a minimal runtime of x86-64."""
    return replace(RuntimeRequest(kind="minimal", arch="x86_64", needs=needs, possible=needs), **changes)


def _configure(build: Path, tree: Path) -> None:
    (build / "onnx").mkdir(parents=True, exist_ok=True)
    (build / "zig-cache").mkdir(exist_ok=True)
    (build / "zig-cache/left.h").write_text("what compilers keep for themselves")
    (build / CONFIGURED).write_text("")
    (build / "config.h").write_text("#define ON 1\n")
    (build / "onnx/onnx.pb.h").write_text("#pragma once\n")
    command = {"file": f"{tree}/unit0.c", "command": f"gcc -I{build}", "output": "CMakeFiles/one.dir/one.o"}
    (build / COMMANDS).write_text(json.dumps([command]))


def objects_of(archive: KernelArchive) -> list[Path]:
    return [archive.job(name).object for name in sorted(archive.units)]


def build(context: HostContext) -> Path:
    """The library: what is missing compiled, and linked once."""
    archive = small_archive(context.store)
    archive.compile(archive.units, context=context)

    def link(folder: Path) -> None:
        linker = os.environ.get("SMALL_LINKER", "gcc")
        context.run([linker, "-shared", "-s", "-o", folder / "small.so", *objects_of(archive)])

    return context.store.cached("runtime", {"archive": archive.key}, link) / "small.so"


if __name__ == "__main__":
    with host_context(story=Story(quiet=True), store=Store(root=Path(sys.argv[1]))) as made:
        sys.stdout.write(f"{build(made)}\n")
