"""Draft what edgepack needs to build another release of ONNX Runtime. For edgepack's maintainers, from the root of its repository.

    python -m bin.draft_release --sources ./onnxruntime-1.22.0

Tries on its sources all that edgepack changes in the newest release that it knows, compares kernels, files and libraries, and writes a
room: a folder that `edgepack runtime lib --release` builds with. UPGRADE.md in it says what to mend, step by step. Then a first library is
built, with only the patches that no runtime can be made without, and runs a model; docs/upgrading-onnxruntime.md has the whole way.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bin.draft_release.first_build import PAGE, draft
from bin.draft_release.table import render_draft

from edgepack.api.kit import host_context
from edgepack.cli.output import print_rich
from edgepack.errors import EdgepackError, ToolError
from edgepack.foundry.platforms import find_platform
from edgepack.plugins.host import load_plugins
from edgepack.runtimes.standalone import LibraryOptions


def main(arguments: Sequence[str] | None = None) -> int:
    """10: the first build failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sources", required=True, type=Path, help="source tree or archive of another release"
    )
    parser.add_argument("-m", "--model", help="model that the first build must run, as for `edgepack bundle`")
    parser.add_argument("--no-build", action="store_true", help="read the sources only; compile nothing")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("dist/room"), help="new folder for the room"
    )
    parser.add_argument("--offline", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    options = LibraryOptions()
    with host_context(offline=asked.offline) as context:
        made = draft(
            asked.sources,
            model=asked.model,
            options=options,
            platform=find_platform(options.runtime.platform, load_plugins().extensions("platform")),
            build=not asked.no_build,
            output=asked.output,
            context=context,
        )
    if asked.json:
        sys.stdout.write(json.dumps(made.as_json(), indent=2) + "\n")
    else:
        print_rich(render_draft(made))
    if not (made.build.ran or asked.no_build):
        raise ToolError(
            f"the first build of ONNX Runtime {made.survey.version} was not made: {made.build.said}",
            hint=f"{asked.output / PAGE} says what to mend",
        )
    if not asked.json:
        sys.stdout.write(f"next: {asked.output / PAGE}\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except EdgepackError as error:
        sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
        sys.exit(error.exit_code)
