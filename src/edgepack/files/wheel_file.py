"""Wheels as files (https://packaging.python.org/en/latest/specifications/binary-distribution-format/): the same members, the same bytes."""

import base64
import hashlib
import io
import stat
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from edgepack.files.pack import add_to_zip

DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class WheelMember:
    name: str
    """Its path in the wheel."""
    content: Path | bytes
    executable: bool = False


def pack_wheel(destination: Path, info: str, members: Iterable[WheelMember], *, level: int) -> None:
    """Write a wheel of members in their order, and last its RECORD into the folder ``info``.

    Members are deflated at ``level``; at 0 they are kept as they are, which is for what is compressed already.
    """
    with zipfile.ZipFile(destination, "w") as archive:
        record = [_add(archive, member, level) for member in members]
        text = "".join([*record, f"{info}/RECORD,,\n"])
        _add(archive, WheelMember(name=f"{info}/RECORD", content=text.encode()), level)


def _add(archive: zipfile.ZipFile, wanted: WheelMember, level: int) -> str:
    """Its line for RECORD."""
    member = zipfile.ZipInfo(wanted.name, DATE)
    member.create_system = 3
    member.external_attr = (stat.S_IFREG | (0o755 if wanted.executable else 0o644)) << 16
    add_to_zip(archive, member, wanted.content, level=level)
    with (
        io.BytesIO(wanted.content)
        if isinstance(wanted.content, bytes)
        else wanted.content.open("rb") as source
    ):
        digest = hashlib.file_digest(source, "sha256")
    encoded = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
    return f"{wanted.name},sha256={encoded},{member.file_size}\n"
