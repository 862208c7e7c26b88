"""The packager: one file that holds the bundle's folder, manifest and all, as it is. The host opens and compares it."""

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from edgepack import api

DATE = (1980, 1, 1, 0, 0, 0)
"""Of every entry: the same bundle gives the same bytes on any day."""


@dataclass(frozen=True)
class Zip:
    """``NAME-VERSION.acme.zip`` (``edgepack.api.axes.Packager``)."""

    target: api.Target

    def file_name(self, bundle: api.Bundle) -> str:
        return f"{bundle.name}-{self.target.version}.acme.zip"

    def pack(self, bundle: api.Bundle, destination: Path, *, context: api.BuildContext) -> None:
        modes = {file["path"]: file["mode"] for file in bundle.manifest["files"]}
        if "link" in modes.values():
            raise api.UsageError("this bundle has links, which a zip does not keep")
        with zipfile.ZipFile(destination, "w") as archive:
            # A signature, where there is one, is the one file that no manifest lists.
            own = [
                name
                for name in ("manifest.json", "signature.sigstore.json")
                if (bundle.directory / name).is_file()
            ]
            for name in sorted([*own, *modes]):
                entry = zipfile.ZipInfo(f"{bundle.name}/{name}", DATE)
                # Programs stay programs.
                entry.external_attr = (0o100755 if modes.get(name) == "0755" else 0o100644) << 16
                archive.writestr(entry, (bundle.directory / name).read_bytes(), zipfile.ZIP_DEFLATED)


def create(target: api.Target) -> Zip:
    """The packager for a target. What there is no such package of is refused here, before anything is built."""
    if not re.fullmatch(r"\d+(\.\d+)*", target.version):
        raise api.UsageError(f"{target.version!r} is no version", hint='e.g. --set package.version="1.2.0"')
    return Zip(target)
