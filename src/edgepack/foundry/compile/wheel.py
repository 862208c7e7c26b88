"""A kernel archive as a wheel: data, and an entry point."""

import re
from pathlib import Path

from edgepack import __version__
from edgepack.files.store import sha256_of, written_beside
from edgepack.files.wheel_file import WheelMember, pack_wheel
from edgepack.foundry.compile.exchange import Exchanged
from edgepack.foundry.compile.installed import FILE, GROUP

METADATA = """Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: ONNX Runtime's kernels, compiled for edgepack: {kind}, {toolchain}
Requires-Python: >=3.11
"""
WHEEL = f"""Wheel-Version: 1.0
Generator: edgepack {__version__}
Root-Is-Purelib: true
Tag: py3-none-any
"""


def write_wheel(exported: Path, made: Exchanged, folder: Path) -> Path:
    """The wheel of an exported archive, in ``folder``; the same archive gives the same bytes.

    Its version is edgepack's with the first digits of the archive's digest, so that another content is another version.
    """
    name = distribution_of(made)
    package, version = name.replace("-", "_"), f"{__version__}+{sha256_of(exported)[:12]}"
    info = f"{package}-{version}.dist-info"
    texts = {
        f"{package}/__init__.py": f'"""Kernel archive {made.key}."""\n',
        f"{info}/METADATA": METADATA.format(
            name=name, version=version, kind=made.kind, toolchain=made.toolchain
        ),
        f"{info}/WHEEL": WHEEL,
        f"{info}/entry_points.txt": f"[{GROUP}]\n{made.key} = {package}\n",
    }
    place = folder / f"{package}-{version}-py3-none-any.whl"
    members = [WheelMember(name=f"{package}/{FILE}", content=exported)]
    members += [WheelMember(name=path, content=text.encode()) for path, text in sorted(texts.items())]
    with written_beside(place) as temporary:
        pack_wheel(temporary, info, members, level=0)
    return place


def distribution_of(made: Exchanged) -> str:
    """E.g. ``edgepack-kernels-minimal-x86-64-linux-gnu-2-28``."""
    platform = made.toolchain.rpartition(", ")[2]
    words = "-".join(["edgepack", "kernels", made.kind, platform, *made.features])
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
