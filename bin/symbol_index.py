"""Write a symbol index that edgepack ships, of what has been compiled on this machine. For edgepack's maintainers.

    edgepack runtime export --full --arch aarch64
    python bin/symbol_index.py --arch aarch64 FILE

FILE belongs beside the others, as src/edgepack/foundry/releases/*/data/symbols-KIND[-ARCH].json.zst, or where a plugin
keeps those of its platform.
"""

import argparse
from pathlib import Path

from edgepack.console import Story
from edgepack.files.store import written_beside
from edgepack.foundry.compile.archive import open_archive
from edgepack.foundry.link.everything import make_index
from edgepack.foundry.platform import RuntimeOptions
from edgepack.foundry.platforms import platform_on
from edgepack.plugins.context import host_context
from edgepack.plugins.host import load_plugins


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--kind", choices=["minimal", "minimal-extended", "full"], default="minimal")
    parser.add_argument("--arch", default="x86_64")
    named = parser.parse_args()
    device, platform = platform_on(named.arch, load_plugins().extensions("platform"))
    options = RuntimeOptions(platform=device, kind=named.kind)
    platform.check(options)
    with host_context(story=Story()) as context:
        archive = open_archive(
            kind=options.kind,
            toolchain=platform.toolchain(options, context=context),
            release=platform.release,
            context=context,
        )
        with written_beside(named.file) as beside:
            beside.write_bytes(make_index(archive))


if __name__ == "__main__":
    main()
