"""Real bundles, made by the real command from what is in the cache."""

import json
import tarfile
from pathlib import Path

import pytest
import zstandard

from edgepack.records.bundle import Bundle
from tests.support.command import edgepack


def made_bundle(target: str, output: Path, *options: str) -> Bundle:
    """A bundle of a test's own, by ``edgepack bundle`` offline. In `make test` the test has to say why it needs one."""
    from tests.support.doors import running  # a plugin of pytest's, which is to import it first

    for item in running:
        if not any(item.get_closest_marker(mark) for mark in ("builds", "slow")):
            pytest.fail(
                f"{item.nodeid} makes a bundle: use one of tests/conftest.py, or say why with builds('…')"
            )
    return made_for_all(target, output, *options)


def made_for_all(target: str, output: Path, *options: str) -> Bundle:
    """A bundle that tests share."""
    done = edgepack("bundle", "--target", target, "--output", str(output), "--offline", "--json", *options)
    assert done.returncode == 0, done.stderr
    return bundle_in(Path(json.loads(done.stdout)["directory"]))


def bundle_in(directory: Path) -> Bundle:
    """A finished bundle, with its archive beside it."""
    from edgepack.bundles.manifest import open_bundle

    made = open_bundle(directory)
    archive = made.directory.with_name(made.directory.name + ".tar.zst")
    return Bundle(directory=made.directory, manifest=made.manifest, archive=archive)


def unpack_tarball(file: Path, folder: Path) -> None:
    """A ``.tar.zst``, as tar and zstd unpack it."""
    with zstandard.open(file, "rb") as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        archive.extractall(folder, filter="data")
