"""``make compile_commands``: what editors and clang-tidy open the C++ of the program with.

Writes ``build/native`` (what is generated: options, the list of features) and ``compile_commands.json``, in which every source stands with the
flags that the product is built with. ``encoder/ort_linked.cc`` needs ONNX Runtime's headers and is left out.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from edgepack.files.store import written_beside
from edgepack.foundry.link.sources import FLAGS, flags_for
from edgepack.runner.native.sources import ort_encoder, program_sources, source_files
from tests.support.golden import ROOT

CSRC = ROOT / "src/edgepack/runner/native/csrc"
PLUGINS = ("edgepack_engine", "edgepack_static")
LEFT_OUT = ("encoder/ort_linked.cc",)


def write_generated(folder: Path) -> None:
    """What of a program with all features is in no folder of ``csrc``."""
    every = program_sources(ort_encoder("loaded"), ("serve", "signatures", "scores", "outputs"))
    for name in every.keys() - source_files("").keys():
        with written_beside(folder / name) as beside:
            beside.write_text(every[name], encoding="utf-8")


def commands(generated: Path) -> Iterator[dict[str, object]]:
    """One entry of ``compile_commands.json`` a source."""
    compiler = shutil.which("clang++") or shutil.which("g++") or "c++"
    own = [CSRC / name for name in source_files("") if name.endswith((".cc", ".c")) and name not in LEFT_OUT]
    others = [file for plugin in PLUGINS for file in (ROOT / "plugins" / plugin / "csrc").glob("*.cc")]
    for file in (*own, *sorted(others)):
        name = file.relative_to(CSRC).as_posix() if file.is_relative_to(CSRC) else file.name
        language = ["-x", "c"] if file.suffix == ".c" else []
        flags = [*flags_for(name, FLAGS), f"-I{CSRC}", f"-I{generated}"]
        yield {
            "directory": str(ROOT),
            "file": str(file),
            "arguments": [compiler, *language, *flags, "-c", str(file)],
        }


def main() -> None:
    generated = ROOT / "build/native"
    write_generated(generated)
    listed = list(commands(generated))
    with written_beside(ROOT / "compile_commands.json") as beside:
        beside.write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"compile_commands.json: {len(listed)} sources\n")


if __name__ == "__main__":
    main()
