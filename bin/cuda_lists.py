"""A first form of the lists for another version of ONNX Runtime, to be gone over by hand. For edgepack's maintainers.

    python bin/cuda_lists.py libonnxruntime_providers_cuda.so VERSION > plugins/edgepack_cuda/data/onnxruntime-VERSION.toml

It is made from the lists that there are and the library itself; docs/gpu.md says what is to be done with it.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from edgepack.errors import BundleError
from edgepack_cuda.image import read_image
from edgepack_cuda.inspect import read_library
from edgepack_cuda.kernels import kernels_of
from edgepack_cuda.lists import Lists, known_versions, lists_for, of_any, short
from edgepack_cuda.prune import device_code

HEAD = """\
# Which kernels of libonnxruntime_providers_cuda.so {version} serve an operator; a translation unit is kept when it holds one
# of them. Drafted from the lists for {base}; {state}.
# <Sm?>: of those for several generations, the one that is chosen on a device, the newest that is not newer.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("library", type=Path)
    parser.add_argument("version", help="the ONNX Runtime that the library is of")
    options = parser.parse_args(arguments)
    sys.stdout.write(draft(read_library(options.library), options.library.name, options.version))


def draft(content: bytes, name: str, version: str) -> str:
    """The lists as TOML: those of the nearest version, each kernel that the library does not have marked as gone.

    Raises ``BundleError`` for a library whose kernels cannot be read.
    """
    _, code, fatbins = device_code(read_image(content, name), name)
    kernels = [kernels_of(code, fatbin) for fatbin in fatbins]
    base = lists_for(nearest(version, known_versions()))
    if base is None:
        raise BundleError("there are no lists to begin with", hint="reinstall edgepack")
    gone = base.absent(kernels)
    state = f"gone is what it has no longer: {', '.join(gone)}" if gone else "it has every kernel of theirs"
    lines = [HEAD.format(version=version, base=base.version, state=state).rstrip()]
    lines += [f"units = {len(fatbins)}", _line("always", base.always, gone), "", "[operators]"]
    lines += [_line(operator, base.operators[operator], gone) for operator in base.operators]
    return "\n".join([*lines, *_others(base, kernels)]) + "\n"


def nearest(version: str, known: Sequence[str]) -> str:
    """The newest version that is not newer than one, else the oldest; empty where none is known."""
    ordered = sorted(known, key=_numbers)
    before = [each for each in ordered if _numbers(each) <= _numbers(version)]
    return (before[-1:] or ordered[:1] or [""])[0]


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _line(key: str, names: Sequence[str], gone: Sequence[str]) -> str:
    lost = [name for name in names if name in gone]
    kept = json.dumps([name for name in names if name not in gone])
    return f"{key} = {kept}" + (f"  # gone: {', '.join(lost)}" if lost else "")


def _others(base: Lists, kernels: Sequence[Sequence[str]]) -> list[str]:
    """The names of all other kernels, among which what took the place of a gone one is to be found."""
    names = {name for names in kernels for name in names}
    others = sorted(name for name in names if base.names.isdisjoint({short(name), of_any(short(name))}))
    return ["", "# no operator's:", *(f"#   {name}" for name in others)]


if __name__ == "__main__":
    main()
