"""Debian's registry, and the clients that people use with registries, unpacked into the cache: nothing is installed."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgepack.console import Story
from edgepack.errors import EdgepackError
from edgepack.fetch.debian import Package, fetch_packages
from edgepack.files.store import Store, default_root
from edgepack.plugins.context import host_context

PROGRAMS = ("docker-registry", "skopeo", "umoci", "podman", "conmon", "crun")
LIBRARIES = ("libassuan0", "libdevmapper1.02.1", "libgpgme11", "libsubid4")
PACKAGES = (
    *(Package(suite="bookworm", kind="deb", name=name) for name in (*PROGRAMS, *LIBRARIES)),
    Package(suite="sid", kind="deb", name="oras"),
)


@dataclass(frozen=True, kw_only=True)
class OciTools:
    """A folder that stands for ``/``."""

    root: Path

    def program(self, name: str) -> Path:
        """Skips the test where Debian's mirror lacks it."""
        path = self.root / "usr/bin" / name
        if not path.is_file():
            pytest.skip(f"Debian's mirror has no package {name}")
        return path

    def environment(self, home: Path) -> dict[str, str]:
        libraries = next((self.root / "usr/lib").glob("*-linux-gnu"), self.root)
        return {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": str(libraries),
            "TMPDIR": str(home),
        }

    def run(self, name: str, *words: str | Path, home: Path, **environment: str) -> str:
        """What a program prints; it has to succeed."""
        done = subprocess.run(
            [self.program(name), *words],
            env={**self.environment(home), **environment},
            cwd=home,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def oci_tools() -> OciTools:
    """Kept in the cache. Skips the test where neither cache nor mirror has them."""

    def fetch(folder: Path) -> None:
        with host_context(story=Story(quiet=True)) as context:
            fetch_packages(PACKAGES, folder, context=context)
        for package in sorted(folder.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
            package.unlink()

    try:
        made = Store(root=default_root()).cached("test-oci-tools", {"packages": repr(PACKAGES)}, fetch)
    except (EdgepackError, OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"docker-registry, skopeo, umoci, podman, oras: {error}")
    return OciTools(root=made)
