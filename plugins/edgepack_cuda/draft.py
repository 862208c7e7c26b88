"""A first form of the lists for another version of ONNX Runtime, made from those that there are and the library itself."""

from __future__ import annotations

import json
from collections.abc import Sequence

from edgepack.api import BundleError
from edgepack_cuda.image import read_image
from edgepack_cuda.kernels import kernels_of
from edgepack_cuda.lists import Lists, known_versions, lists_for, nearest
from edgepack_cuda.prune import device_code

HEAD = """\
# Which kernels of libonnxruntime_providers_cuda.so {version} serve an operator; a translation unit is kept when it holds one
# of them. Drafted from the lists for {base}; {state}.
# <Sm?>: of those for several generations, the one that is chosen on a device, the newest that is not newer.
"""


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


def _line(key: str, names: Sequence[str], gone: Sequence[str]) -> str:
    lost = [name for name in names if name in gone]
    kept = json.dumps([name for name in names if name not in gone])
    return f"{key} = {kept}" + (f"  # gone: {', '.join(lost)}" if lost else "")


def _others(base: Lists, kernels: Sequence[Sequence[str]]) -> list[str]:
    """The names of all other kernels, among which what took the place of a gone one is to be found."""
    named = base.named()
    others = sorted({name for names in kernels for name in names if not named(name)})
    return ["", "# no operator's:", *(f"#   {name}" for name in others)]
