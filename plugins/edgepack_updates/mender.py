"""A Mender artifact of a bundle (https://docs.mender.io, *Artifact format 3*), for the update module ``edgepack``.

A tar of: the version of the format, the SHA-256 of everything, a header, and the payload, which is the bundle's archive as it is.
It is unsigned; ``mender-artifact sign`` adds a signature.
"""

import gzip
import json
import re
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, Any, cast

from edgepack.api import BuildContext, Bundle, Target, UsageError
from edgepack.api.axes import TarEntry
from edgepack.api.kit import sha256_of
from edgepack.bundles.archive import pack
from edgepack.files.pack import write_tar

MODULE = "edgepack"
"""What the update module is called on the device."""
HINT = 'in the target: [x-mender] with device_types = ["raspberrypi4"], as the devices\' mender.conf or device_type says it'


@dataclass(frozen=True, kw_only=True)
class MenderArtifact:
    """The packager (``edgepack.api.axes.Packager``)."""

    version: str
    device_types: tuple[str, ...]

    def file_name(self, bundle: Bundle) -> str:
        """The name of the artifact, e.g. ``all-MiniLM-L6-v2-linux-x86-min-1.0.mender``."""
        return f"{bundle.name}-{self.version}.mender"

    def pack(self, bundle: Bundle, destination: Path, *, context: BuildContext) -> None:
        """Write the artifact; the same bundle and version give the same bytes."""
        work = Path(mkdtemp(dir=context.work_dir))
        archive = bundle.archive or pack(bundle, work / f"{bundle.name}.tar.zst", context=context).archive
        assert archive is not None
        payload = work / "0000.tar.gz"
        _write_tar(payload, [(archive.name, archive)], compressed=True)
        header = work / "header.tar.gz"
        _write_tar(header, self._header(bundle), compressed=True)
        version = json.dumps({"format": "mender", "version": 3}).encode()
        (work / "version").write_bytes(version)
        sums = {f"data/0000/{archive.name}": archive, "header.tar.gz": header, "version": work / "version"}
        manifest = "".join(f"{sha256_of(path)}  {name}\n" for name, path in sums.items())
        members: list[tuple[str, bytes | Path]] = [
            ("version", version),
            ("manifest", manifest.encode()),
            ("header.tar.gz", header),
            ("data/0000.tar.gz", payload),
        ]
        _write_tar(destination, members, compressed=False)

    def _header(self, bundle: Bundle) -> list[tuple[str, bytes]]:
        model = bundle.manifest["model"]
        info = {
            "payloads": [{"type": MODULE}],
            "artifact_provides": {"artifact_name": f"{bundle.name}-{self.version}"},
            "artifact_depends": {"device_type": list(self.device_types)},
        }
        provides = {
            f"{MODULE}.bundle": bundle.name,
            f"{MODULE}.version": self.version,
            f"{MODULE}.embedder": model.get("embedder", ""),
        }
        kind = {
            "type": MODULE,
            "artifact_provides": provides,
            "clears_artifact_provides": [f"{MODULE}.*"],
        }
        return [
            ("header-info", json.dumps(info).encode()),
            ("headers/0000/type-info", json.dumps(kind).encode()),
            ("headers/0000/meta-data", b""),
        ]


def create_packager(target: Target) -> MenderArtifact:
    """Raises ``UsageError`` for a platform that Mender's client does not run on, and where no type of device is named."""
    if target.platform.os != "linux":
        raise UsageError(
            f"a bundle for {target.platform.os} cannot be packed as a Mender artifact",
            hint="bundles for linux are",
        )
    own: dict[str, Any] = dict(target.extra.get("mender", {}))
    types = own.pop("device_types", None)
    if own or not isinstance(types, list) or not types or not all(map(_is_word, types)):
        raise UsageError(f"[x-mender] says {', '.join(own) or types or 'no device_types'}", hint=HINT)
    return MenderArtifact(version=target.version, device_types=tuple(types))


def _is_word(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9._+-]+", value) is not None


def _write_tar(path: Path, members: Iterable[tuple[str, bytes | Path]], *, compressed: bool) -> None:
    entries = [TarEntry(name=name, source=content) for name, content in members]
    with path.open("wb") as out:
        if not compressed:
            write_tar(out, entries, format=tarfile.USTAR_FORMAT)
            return
        # The archive is compressed already.
        with gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=out, mtime=0) as packed:
            write_tar(cast("IO[bytes]", packed), entries, format=tarfile.USTAR_FORMAT)
