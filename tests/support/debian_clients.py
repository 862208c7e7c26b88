"""Debian's own clients of update systems, fetched and unpacked into the cache: nothing is installed on this machine."""

import os
import subprocess
from pathlib import Path

import pytest

from edgepack.console import Story
from edgepack.errors import EdgepackError
from edgepack.fetch.debian import Package, fetch_packages
from edgepack.files.store import Store, default_root
from edgepack.plugins.context import host_context

SUITE = "bookworm"
CLIENTS = {
    "rauc": ("rauc", "squashfs-tools", "libjson-glib-1.0-0", "liblzo2-2"),
    "mender": ("mender-client",),
}


def debian_client(name: str) -> dict[str, str]:
    """An environment in which the client is on PATH. Skipped where it cannot be had, or does not run here."""
    if os.geteuid() != 0:
        pytest.skip(f"{name} mounts and formats: only as root")

    def fetch(folder: Path) -> None:
        with host_context(story=Story(quiet=True)) as context:
            wanted = [Package(suite=SUITE, kind="deb", name=each) for each in CLIENTS[name]]
            fetch_packages(wanted, folder, context=context)
        for each in CLIENTS[name]:
            found = next(folder.glob(f"{each}_*.deb"), None)
            if found is None:
                pytest.skip(f"Debian's mirror has no package {each}")
            subprocess.run(["dpkg-deb", "-x", found, folder / "root"], check=True)
            found.unlink()

    try:
        made = Store(root=default_root()).cached(f"test-{name}", {"packages": repr(CLIENTS[name])}, fetch)
    except EdgepackError as error:
        pytest.skip(f"{name}: {error.message}")
    root = made / "root"
    libraries = [
        str(folder) for folder in (root / "usr/lib", root / "lib") for folder in folder.glob("*-linux-gnu")
    ]
    programs = [str(root / "usr/bin"), str(root / "usr/sbin"), "/usr/sbin", "/sbin", "/usr/bin", "/bin"]
    environment = {"PATH": ":".join(programs), "LD_LIBRARY_PATH": ":".join(libraries)}
    tried = subprocess.run(
        [name, "--version"], env=environment, capture_output=True, encoding="utf-8", check=False
    )
    if tried.returncode != 0:
        pytest.skip(f"Debian's {name} does not run here: {tried.stderr.strip()[:200]}")
    return environment


def in_namespace(script: str, folder: Path, environment: dict[str, str]) -> str:
    """What a shell script prints that runs in ``folder``; its mounts are its own. Skipped where there can be none."""
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    if tried.returncode != 0:
        pytest.skip("no mounts of one's own here")
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if "SKIP:" in done.stdout:
        pytest.skip(done.stdout.partition("SKIP:")[2].strip())
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout
