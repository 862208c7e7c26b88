"""Real bundles, made by the real command from what is in the cache."""

import json
from pathlib import Path

from edgepack.records.bundle import Bundle
from tests.support.command import edgepack


def made_bundle(target: str, output: Path, *options: str) -> Bundle:
    """Run ``edgepack bundle`` offline."""
    done = edgepack("bundle", "--target", target, "--output", str(output), "--offline", "--json", *options)
    assert done.returncode == 0, done.stderr
    return bundle_in(Path(json.loads(done.stdout)["directory"]))


def bundle_in(directory: Path) -> Bundle:
    """A finished bundle, with its archive beside it."""
    from edgepack.bundles.manifest import open_bundle

    made = open_bundle(directory)
    archive = made.directory.with_name(made.directory.name + ".tar.zst")
    return Bundle(directory=made.directory, manifest=made.manifest, archive=archive)
