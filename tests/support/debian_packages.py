"""Packages of Debian's, unpacked into the cache; a test is skipped where the mirror is not to be had."""

import os
import subprocess
from pathlib import Path

import pytest

from edgepack.console import Story
from edgepack.errors import EdgepackError
from edgepack.fetch.debian import Package, fetch_packages
from edgepack.files.store import Store, default_root
from edgepack.plugins.context import host_context


def unpacked(suite: str, *names: str) -> Path:
    """Folder with all files of the packages ``names``, each with ``:ARCH`` where it is another machine's."""
    packages = [Package(suite=suite, kind="deb", name=name) for name in names]

    def fetch(folder: Path) -> None:
        with host_context(story=Story(quiet=True)) as context:
            fetch_packages(packages, folder, context=context)
        found = list(folder.glob("*.deb"))
        if len(found) < len(packages):
            pytest.skip(f"Debian's mirror lacks some of {', '.join(names)}")
        for package in found:
            subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
            package.unlink()
        _lead_inside(folder)

    try:
        return Store(root=default_root()).cached("test-debian", {"packages": repr(packages)}, fetch)
    except EdgepackError as error:
        pytest.skip(f"{', '.join(names)}: {error.message}")


def _lead_inside(folder: Path) -> None:
    """Links to a file by its place in the system, where a package brings that file, lead to it."""
    for link in [each for each in folder.rglob("*") if each.is_symlink()]:
        meant = folder / str(link.readlink()).lstrip("/")
        if link.readlink().is_absolute() and meant.exists():
            link.unlink()
            link.symlink_to(os.path.relpath(meant, link.parent))
