"""Mender artifacts: the format's parts, and the bundle in them."""

import hashlib
import io
import json
import os
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.updates import two_bundles

from edgepack.bundles.archive import pack, unpack_bundle
from edgepack.bundles.manifest import digest, open_bundle
from edgepack.errors import BundleError, UsageError
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.target import ModelOptions, Platform, Target
from edgepack_updates import applying
from edgepack_updates.mender import MenderArtifact, create_packager

TARGET = Target(
    name="device",
    summary="",
    builder="linux",
    platform=Platform(os="linux", arch="x86_64"),
    model=ModelOptions(),
    extra={"mender": {"device_types": ["kiosk", "raspberrypi4"]}},
)
SCRIPT = Path(applying.__file__).parent / "data/mender-module.sh"


@pytest.fixture
def bundle(tmp_path: Path, context: HostContext) -> Bundle:
    made = two_bundles(tmp_path)[0]
    return pack(made, tmp_path / "sample.tar.zst", context=context)


def members(content: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr]


def test_the_artifact_is_of_format_3_with_the_archive_as_payload(
    bundle: Bundle, tmp_path: Path, context: HostContext
) -> None:
    packager = create_packager(TARGET)
    assert packager.file_name(bundle) == f"sample-{TARGET.version}.mender"
    artifact = tmp_path / packager.file_name(bundle)
    packager.pack(bundle, artifact, context=context)
    found = members(artifact.read_bytes())
    assert list(found) == ["version", "manifest", "header.tar.gz", "data/0000.tar.gz"], (
        "in the format's order"
    )
    assert json.loads(found["version"]) == {"format": "mender", "version": 3}
    assert bundle.archive is not None
    payload = members(found["data/0000.tar.gz"])
    assert payload == {"sample.tar.zst": bundle.archive.read_bytes()}
    lines = (line.split("  ") for line in found["manifest"].decode().splitlines())
    sums = {name: sha256 for sha256, name in lines}
    assert sums == {
        name: hashlib.sha256(content).hexdigest()
        for name, content in {
            "data/0000/sample.tar.zst": payload["sample.tar.zst"],
            "header.tar.gz": found["header.tar.gz"],
            "version": found["version"],
        }.items()
    }
    header = members(found["header.tar.gz"])
    info = json.loads(header["header-info"])
    assert info["artifact_depends"] == {"device_type": ["kiosk", "raspberrypi4"]}
    assert json.loads(header["headers/0000/type-info"])["type"] == "edgepack"
    again = tmp_path / "again.mender"
    packager.pack(replace(bundle, archive=None), again, context=context)
    assert again.read_bytes() == artifact.read_bytes()


def test_the_bundle_is_found_in_it(bundle: Bundle, tmp_path: Path, context: HostContext) -> None:
    artifact = tmp_path / "sample.mender"
    MenderArtifact(version="1", device_types=("kiosk",)).pack(bundle, artifact, context=context)
    assert digest(open_bundle(unpack_bundle(artifact, tmp_path / "inside"))) == digest(bundle)
    deeper = tmp_path / "deeper.tar"
    with tarfile.open(deeper, "w") as tar:
        tar.add(artifact, "sample.mender")
    with pytest.raises(BundleError, match=r"there is no manifest\.json in it"):
        unpack_bundle(deeper, tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "says no device_types"),
        ({"device_types": []}, "says no device_types"),
        ({"device_types": "kiosk"}, "says kiosk"),
        ({"device_types": ["a b"]}, "a b"),
        ({"device_types": ["kiosk"], "devices": []}, "says devices"),
    ],
)
def test_devices_have_to_be_named(table: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        create_packager(replace(TARGET, extra={"mender": table}))
    assert refused.value.hint and "[x-mender]" in refused.value.hint


@pytest.mark.tools("sh", may=("mktemp",))
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("before", [None, "bundle-factory", "/absolute/bundle-factory"])
def test_a_device_that_goes_back_has_what_it_had(tmp_path: Path, *, before: str | None, whole: bool) -> None:
    """None, if it had none: the bundle that was rolled back is gone. A link that leads to the bundle in use may be absolute."""
    home, work, inside = (tmp_path / name for name in ("home", "work", "made/sample"))
    for folder in (home, work / "files", inside):
        folder.mkdir(parents=True)
    if before:
        (home / "bundle-factory").mkdir()
        (home / "current").symlink_to(before.replace("/absolute", str(home)))
    (inside / "embed").write_text("#!/bin/sh\n")
    (inside / "embed").chmod(0o755)
    payload = work / "files/sample.tar.zst"
    with tarfile.open(payload, "w") as tar:
        tar.add(inside, "sample")
    payload.write_bytes(payload.read_bytes()[: None if whole else 600])
    codes = [
        subprocess.run(
            ["sh", SCRIPT, state, work], env={**os.environ, "EDGEPACK_HOME": str(home)}, check=False
        ).returncode
        for state in ("ArtifactInstall", "ArtifactRollback", "Cleanup")
    ]
    assert [code == 0 for code in codes] == [whole, True, True]
    assert sorted(path.name for path in home.iterdir()) == (["bundle-factory", "current"] if before else [])
    assert not before or (home / "current").resolve() == home / "bundle-factory"


def test_a_browser_has_no_client(bundle: Bundle) -> None:
    with pytest.raises(UsageError, match="for web cannot be packed"):
        create_packager(replace(TARGET, platform=Platform(os="web", arch="wasm32")))
