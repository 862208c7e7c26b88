"""A Debian package of a bundle (https://www.debian.org/doc/debian-policy/, deb(5)).

The bundle's folder lies in /usr/lib/edgepack/NAME, as it is; /usr/bin/NAME is a link to its program, and ``embed`` the
alternative that update-alternatives chooses. A program with a server gets a systemd unit NAME.service, which nothing starts.
"""

import hashlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgepack.api import BuildContext, Bundle, Target, UsageError
from edgepack.api.axes import TarEntry, bundle_entries, write_tarball
from edgepack.bundles.packages import require_version, text_of_form

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "armhf", "riscv64": "riscv64"}
"""What Debian calls them."""
MAINTAINER = re.compile(r"[^<>\n]+ <[^<>\s]+@[^<>\s]+>")
VERSION = re.compile(r"[0-9]([A-Za-z0-9.+~-]*[A-Za-z0-9.+~])?")
HOME = "usr/lib/edgepack"
MAGIC = b"!<arch>\n"
LEVEL, WINDOW = 19, 23
"""Of zstd; dpkg reads it since 1.21.18 (Debian 12)."""
UNIT = """[Unit]
Description=Text embeddings: {bundle}
After=network.target

[Service]
ExecStart=/{home}/{bundle}/{program} serve
DynamicUser=yes
ProtectSystem=strict
NoNewPrivileges=yes

[Install]
WantedBy=multi-user.target
"""
CHOSEN = """#!/bin/sh
set -e
if [ "$1" = {when} ]; then update-alternatives {action}; fi
"""


@dataclass(frozen=True, kw_only=True)
class DebianPackage:
    """The packager (``edgepack.api.axes.Packager``)."""

    version: str
    maintainer: str = "edgepack <edgepack@localhost>"

    def file_name(self, bundle: Bundle) -> str:
        """Name as Debian gives packages, e.g. ``all-minilm-l6-v2-linux-x86-min_1.0_amd64.deb``."""
        return f"{_package(bundle)}_{self.version}_{_architecture(bundle)}.deb"

    def pack(self, bundle: Bundle, destination: Path, *, context: BuildContext) -> None:
        """Write the package; the same bundle and version give the same bytes."""
        members = {
            "debian-binary": b"2.0\n",
            "control.tar.zst": _tarball(_control(bundle, self)),
            "data.tar.zst": _tarball(_data(bundle)),
        }
        with destination.open("wb") as out:
            out.write(MAGIC)
            for name, content in members.items():
                out.write(f"{name:16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode())
                out.write(content + b"\n" * (len(content) % 2))


def create_packager(target: Target) -> DebianPackage:
    """Raises ``UsageError`` for a platform or version that no Debian package is of."""
    platform = target.platform
    if platform.os != "linux" or platform.arch not in ARCHITECTURES:
        raise UsageError(
            f"a bundle for {platform.os} on {platform.arch} cannot be packed as a Debian package",
            hint=f"bundles for linux on {', '.join(ARCHITECTURES)} are",
        )
    require_version(target, VERSION, "a Debian package")
    hint, usual = 'maintainer, e.g. maintainer = "Acme <packages@acme.example>"', DebianPackage.maintainer
    maintainer = text_of_form(target, "deb", "maintainer", MAINTAINER, default=usual, hint=hint)
    return DebianPackage(version=target.version, maintainer=maintainer)


def _tarball(entries: Iterator[TarEntry]) -> bytes:
    out = io.BytesIO()
    write_tarball(out, entries, level=LEVEL, window_log=WINDOW, weights=True)
    return out.getvalue()


def _control(bundle: Bundle, made: DebianPackage) -> Iterator[TarEntry]:
    manifest, package = bundle.manifest, _package(bundle)
    glibc = manifest["target"]["platform"]["glibc"]
    size = sum(int(file["size"]) for file in manifest["files"]) // 1024
    fields = {
        "Package": package,
        "Version": made.version,
        "Architecture": _architecture(bundle),
        "Maintainer": made.maintainer,
        "Installed-Size": str(size),
        **({"Depends": f"libc6 (>= {glibc})"} if glibc else {}),
        "Section": "science",
        "Priority": "optional",
        "Description": f"text embeddings by {manifest['model']['name']}\n Made by edgepack for {manifest['target']['name']}.",
    }
    text = "".join(f"{name}: {value}\n" for name, value in fields.items())
    link = f"/usr/bin/embed embed /{HOME}/{bundle.name}/{manifest['runner']['program']}"
    install, remove = f"--install {link} 50", f"--remove {' '.join(link.split()[1:])}"
    yield TarEntry(name="./control", source=text.encode())
    yield TarEntry(
        name="./postinst", source=CHOSEN.format(when="configure", action=install).encode(), executable=True
    )
    yield TarEntry(
        name="./prerm", source=CHOSEN.format(when="remove", action=remove).encode(), executable=True
    )


def _data(bundle: Bundle) -> Iterator[TarEntry]:
    """Folders before what is in them, as dpkg wants them."""
    program = bundle.manifest["runner"]["program"]
    place = f"./{HOME}/{bundle.name}"
    for folder in ("./usr", "./usr/bin", "./usr/lib", f"./{HOME}"):
        yield TarEntry(name=folder, source=bundle.directory)
    yield from bundle_entries(bundle, top=place)
    yield TarEntry(name=f"./usr/bin/{_package(bundle)}", link=f"../../{HOME}/{bundle.name}/{program}")
    if bundle.manifest["runner"].get("serve"):
        unit = UNIT.format(home=HOME, bundle=bundle.name, program=program)
        for folder in ("./usr/lib/systemd", "./usr/lib/systemd/system"):
            yield TarEntry(name=folder, source=bundle.directory)
        yield TarEntry(name=f"./usr/lib/systemd/system/{_package(bundle)}.service", source=unit.encode())


def _package(bundle: Bundle) -> str:
    """The bundle's name in the letters that Debian has; with a digest of it where that leaves others out."""
    name = re.sub(r"[^a-z0-9+.-]+", "-", bundle.name.lower()).lstrip("+.-")
    if bundle.name.isascii():
        return name
    return f"{name}-{hashlib.sha256(bundle.name.encode()).hexdigest()[:8]}"


def _architecture(bundle: Bundle) -> str:
    return ARCHITECTURES[bundle.manifest["target"]["platform"]["arch"]]
