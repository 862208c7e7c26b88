"""Write what edgepack ships so that first builds are quicker, of what is compiled or configured on this machine. For edgepack's maintainers.

    python bin/shipped.py configured FOLDER
    edgepack runtime export --full --arch aarch64
    python bin/shipped.py symbols FILE --arch aarch64

``configured``: what upstream's CMake made for a kernel archive, anew and without what is shipped; FOLDER is
src/edgepack/foundry/releases/*/data. ``symbols``: the symbol index of a kernel archive; FILE belongs there, too, as
symbols-KIND[-ARCH].json.zst, or where a plugin keeps those of its platform.
"""

import argparse
from pathlib import Path

from edgepack.console import Story
from edgepack.files.store import written_beside
from edgepack.foundry.compile import plan
from edgepack.foundry.compile.archive import open_archive
from edgepack.foundry.compile.shipped import configured_key, pack_configured
from edgepack.foundry.link.everything import make_index
from edgepack.foundry.platform import RuntimeOptions
from edgepack.foundry.platforms import platform_on
from edgepack.foundry.sources.tree import source_tree
from edgepack.plugins.context import host_context
from edgepack.plugins.host import load_plugins


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["configured", "symbols"])
    parser.add_argument("place", type=Path)
    parser.add_argument("--kind", choices=["minimal", "minimal-extended", "full"], default="minimal")
    parser.add_argument("--arch", default="x86_64")
    named = parser.parse_args()
    device, platform = platform_on(named.arch, load_plugins().extensions("platform"))
    options = RuntimeOptions(platform=device, kind=named.kind)
    platform.check(options)
    file, release = named.place, platform.release
    with host_context(story=Story()) as context:
        toolchain = platform.toolchain(options, context=context)
        if named.what == "symbols":
            data = make_index(
                open_archive(kind=options.kind, toolchain=toolchain, release=release, context=context)
            )
        else:
            tree, build = source_tree(release.catalogue, context=context), context.work_dir / "build"
            variables = plan.cmake_variables(release.build_settings(toolchain.platform), named.kind, ())
            plan.configure(tree, build, variables=variables, toolchain=toolchain, context=context)
            data = pack_configured(tree, build, configured_key(release, kind=named.kind, toolchain=toolchain))
            file = named.place / f"configured-{named.kind}-{toolchain.platform}.json.zst"
        with written_beside(file) as beside:
            beside.write_bytes(data)


if __name__ == "__main__":
    main()
