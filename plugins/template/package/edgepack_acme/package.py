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
        with zipfile.ZipFile(destination, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(bundle.directory.rglob("*")):
                if path.is_file():
                    entry = zipfile.ZipInfo(f"{bundle.name}/{path.relative_to(bundle.directory)}", DATE)
                    # The mode: programs stay programs.
                    entry.external_attr = path.stat().st_mode << 16
                    archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


def create(target: api.Target) -> Zip:
    """The packager for a target. What there is no such package of is refused here, before anything is built."""
    if not re.fullmatch(r"\d+(\.\d+)*", target.version):
        raise api.UsageError(f"{target.version!r} is no version", hint='e.g. --set package.version="1.2.0"')
    return Zip(target)
