"""The bundle runs in a root file system that holds nothing but the C library, as an ordinary user, read-only."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.support.bare_root import Device, bare_root

from edgepack.files.elf import is_system_library
from edgepack.records.bundle import Bundle

pytestmark = pytest.mark.e2e

TEXTS = ("a cat sat on the mat", "eine Katze saß auf der Matte", "", "日本語")


@pytest.fixture(
    scope="module", params=["native_bundle", pytest.param("frozen_bundle", marks=pytest.mark.slow)]
)
def bundle(request: pytest.FixtureRequest) -> Bundle:
    """The real bundle with each of the two runners."""
    made: Bundle = request.getfixturevalue(request.param)
    return made


@pytest.fixture(scope="module")
def device(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Device:
    root = tmp_path_factory.mktemp("device")
    # pytest's own folders are closed to other users.
    for folder in (root, *root.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o111)
    root.chmod(0o755)
    bare_root(root)
    made = Device(root, bundle.directory)
    probe = made.run("/bundle/embed", "--version")
    if os.geteuid() != 0 and probe.returncode != 0 and "Operation not permitted" in probe.stderr:
        pytest.skip("entering a root folder needs root or user namespaces")
    return made


def test_the_root_holds_nothing_but_the_c_library(device: Device) -> None:
    files = {
        path.name
        for path in device.root.rglob("*")
        if path.is_file() and (device.root / "bundle") not in path.parents
    }
    assert all(map(is_system_library, files))
    assert "libc.so.6" in files


def test_the_bundle_embeds_there_what_it_embeds_here(device: Device, bundle: Bundle) -> None:
    there = device.run("/bundle/embed", *TEXTS)
    here = subprocess.run([bundle.program, *TEXTS], capture_output=True, encoding="utf-8", check=True, env={})
    assert there.stderr == ""
    assert [record["text"] for record in json.loads(there.stdout)] == list(TEXTS)
    assert json.loads(there.stdout) == json.loads(here.stdout)


def test_json_lines_come_through_a_pipe(device: Device) -> None:
    done = device.run("/bundle/embed", "--jsonl", input='{"id": 5, "text": "a cat"}\n')
    assert done.stderr == ""
    record = json.loads(done.stdout)
    assert record["id"] == 5
    assert len(record["embedding"]) > 0


def test_the_self_test_passes_there(device: Device) -> None:
    done = device.run("/bundle/embed", "--self-test", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["min_cosine"] > 0.999


def test_the_bundle_cannot_be_written_to(device: Device) -> None:
    done = device.run("/bundle/embed", "--output", "/bundle/vectors.json", "a cat")
    assert done.returncode == 7
    assert "Read-only file system" in done.stderr or "Permission denied" in done.stderr


def test_through_a_symbolic_link_of_another_name(device: Device) -> None:
    (device.root / "vectorize").symlink_to("bundle/embed")
    done = device.run("/vectorize", "--similarity", "a cat", "a cat")
    assert done.stderr == ""
    assert float(done.stdout) == pytest.approx(1, abs=1e-4)


def test_the_server_answers_there(device: Device, bundle: Bundle) -> None:
    done = device.run("/bundle/embed", "serve", "--check", "--port=0")
    if bundle.manifest["runner"]["kind"] == "native":
        assert done.returncode == 2 and "without a server" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("listening on http://127.0.0.1:")


def test_nothing_is_there_but_the_bundle_and_the_c_library(device: Device) -> None:
    """So that what passed above needed no /tmp (let alone one that allows execution), no /proc, no home, no locale."""
    for name in ("tmp", "proc", "dev", "home", "root", "etc"):
        assert not (device.root / name).exists()
    assert "/usr/lib/locale" not in {f"/{path.relative_to(device.root)}" for path in device.root.rglob("*")}


@pytest.mark.slow
def test_a_measurement(device: Device) -> None:
    assert "texts/s in batches" in device.run("/bundle/embed", "--bench").stdout


def test_every_form_of_output(device: Device) -> None:
    for form in ("json", "jsonl", "table"):
        assert device.run("/bundle/embed", "--out", form, "a cat").returncode == 0
    for type in ("f16", "int8", "binary"):
        assert device.run("/bundle/embed", "--dtype", type, "a cat").returncode == 0
