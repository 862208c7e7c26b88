"""A kernel archive as a wheel (https://packaging.python.org/en/latest/specifications/binary-distribution-format/): data, and an entry point."""

import base64
import hashlib
import re
import shutil
import zipfile
from pathlib import Path

from edgepack import __version__
from edgepack.files.store import sha256_of, written_beside
from edgepack.foundry.compile.exchange import Exchanged
from edgepack.foundry.compile.installed import FILE, GROUP

DATE = (1980, 1, 1, 0, 0, 0)
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
    with written_beside(place) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        record = [_write(archive, f"{package}/{FILE}", exported)]
        record += [_write(archive, path, text.encode()) for path, text in sorted(texts.items())]
        _write(archive, f"{info}/RECORD", "".join([*record, f"{info}/RECORD,,\n"]).encode())
    return place


def distribution_of(made: Exchanged) -> str:
    """E.g. ``edgepack-kernels-minimal-x86-64-linux-gnu-2-28``."""
    platform = made.toolchain.rpartition(", ")[2]
    words = "-".join(["edgepack", "kernels", made.kind, platform, *made.features])
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def _write(archive: zipfile.ZipFile, name: str, content: Path | bytes) -> str:
    """Add a member as it is, for what is large is compressed already; its line for RECORD."""
    member = zipfile.ZipInfo(name, DATE)
    member.create_system = 3
    member.external_attr = 0o100644 << 16
    if isinstance(content, bytes):
        archive.writestr(member, content)
        digest, size = hashlib.sha256(content), len(content)
    else:
        member.file_size = size = content.stat().st_size
        with content.open("rb") as source, archive.open(member, "w") as out:
            shutil.copyfileobj(source, out, 1 << 20)
        with content.open("rb") as source:
            digest = hashlib.file_digest(source, "sha256")
    encoded = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
    return f"{name},sha256={encoded},{size}\n"
