"""Write a symbol index that edgepack ships, of what has been compiled on this machine. For edgepack's maintainers.

    edgepack runtime export --full --arch aarch64
    python bin/symbol_index.py --arch aarch64 FILE

FILE belongs beside the others, as src/edgepack/foundry/releases/*/data/symbols-KIND[-ARCH].json.zst.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from edgepack.console import Story
from edgepack.context import BuildContext
from edgepack.files.store import written_beside
from edgepack.foundry.compile.archive import open_archive
from edgepack.foundry.link.everything import make_index
from edgepack.foundry.toolchains.choose import choose
from edgepack.foundry.toolchains.toolchain import Toolchain
from edgepack.foundry.web.emscripten import emscripten
from edgepack.foundry.web.toolchain import EmscriptenToolchain
from edgepack.plugins.context import host_context
from edgepack.records.target import Platform


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--kind", choices=["minimal", "minimal-extended", "full"], default="minimal")
    parser.add_argument("--arch", choices=["x86_64", "aarch64", "wasm32"], default="x86_64")
    options = parser.parse_args()
    with host_context(story=Story()) as context:
        archive = open_archive(
            kind=options.kind, toolchain=toolchain_for(options.arch, context), context=context
        )
        with written_beside(options.file) as beside:
            beside.write_bytes(make_index(archive))


def toolchain_for(arch: str, context: BuildContext) -> Toolchain:
    if arch == "wasm32":
        return EmscriptenToolchain(tools=emscripten(context=context))
    return choose(Platform(os="linux", arch=arch), context=context)


if __name__ == "__main__":
    main()
