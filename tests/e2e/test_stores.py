"""Stores on servers, reached by the clients that people have: S3 by s3fs, WebDAV by aiohttp."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from unittest.mock import ANY

import pytest
from tests.support.berts import write_bert
from tests.support.kiosk import install, prepare_site
from tests.support.store_servers import StoreServer, s3, webdav

from edgepack.files.store import digest_tree

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

WRITERS = 2


@pytest.fixture(params=[s3, webdav])
def server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[StoreServer]:
    install(prepare_site(tmp_path / "site", monkeypatch), monkeypatch)
    starts: Callable[[Path], AbstractContextManager[StoreServer]] = request.param
    with starts(tmp_path) as running:
        yield running


def machine(tmp_path: Path, name: str, *, changed: float = 1e-12) -> Path:
    """A machine with a cache of its own and the project of all, two models of which are the same everywhere."""
    folder = tmp_path / name
    for model, epsilon in (("one", 1e-12), ("two", changed)):
        write_bert(folder / model, num_hidden_layers=1)
        config = json.loads((folder / model / "config.json").read_text())
        (folder / model / "config.json").write_text(json.dumps({**config, "layer_norm_eps": epsilon}))
    project = '[[bundle]]\nmodels = ["one", "two"]\ntargets = ["kiosk-one"]\n'
    (folder / "edgepack.toml").write_text(project)
    return folder


def start(
    folder: Path, site: Path, address: str, environment: Mapping[str, str], *more: str
) -> subprocess.Popen[str]:
    """`edgepack build` as that machine runs it, with this store."""
    said = {**os.environ, **environment, "EDGEPACK_CACHE": str(folder / "cache")}
    said["PYTHONPATH"] = f"{site}{os.pathsep}{environment['PYTHONPATH']}"
    return subprocess.Popen(
        [sys.executable, "-m", "edgepack", "build", "--offline", "--json", "--store", address, *more],
        cwd=folder,
        env=said,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def finished(building: subprocess.Popen[str]) -> tuple[list[str], list[str]]:
    """The cells' states, and what was warned of."""
    said, beside = building.communicate()
    assert building.returncode == 0 and "Traceback" not in beside, beside
    cells = json.loads(said)["bundles"]
    return [each["state"] for each in cells], [warning for each in cells for warning in each["warnings"]]


def shipped(folder: Path) -> dict[str, str]:
    left = (".report.json", ".edgepack-build.json")
    return {each.path: each.sha256 for each in digest_tree(folder / "dist") if not each.path.endswith(left)}


def test_many_write_and_whatever_the_server_does_nothing_is_lost(server: StoreServer, tmp_path: Path) -> None:
    site = tmp_path / "site"

    def build(folder: Path) -> tuple[list[str], list[str]]:
        return finished(start(folder, site, server.address, server.environment))

    writers = [machine(tmp_path, f"writer-{number}") for number in range(WRITERS)]
    together = [start(folder, site, server.address, server.environment) for folder in writers]
    for states, warnings in map(finished, together):
        assert set(states) <= {"made", "from the store"}
        assert [warning for warning in warnings if "the store" in warning] == []
    (made,) = {json.dumps(shipped(folder)) for folder in writers}
    entries = [name for name in server.names() if "/entries/cell/" in name]
    assert len(entries) == 2, "each cell is there once"

    reader = machine(tmp_path, "reader")
    assert build(reader)[0] == ["from the store"] * 2
    assert json.dumps(shipped(reader)) == made

    for name in server.names():
        if "/sha256/" in name:
            server.replace(name, b"lie")
    doubting = machine(tmp_path, "doubting")
    states, warnings = build(doubting)
    assert states == ["made"] * 2
    assert [warning for warning in warnings if "has a damaged entry, which is made again" in warning]
    assert json.dumps(shipped(doubting)) == made
    shutil.rmtree(reader)
    assert build(machine(tmp_path, "reader")) == (["from the store"] * 2, ANY), "it is mended for others"

    refused = machine(tmp_path, "refused", changed=1e-5)
    states, warnings = finished(start(refused, site, *server.refuse()))
    assert states[1] == "made" and (refused / "dist/two-kiosk-one/manifest.json").is_file()
    (told,) = (warning for warning in warnings if "takes nothing" in warning)
    what, hint = told.splitlines()
    assert what.startswith(f"the store {server.refuse()[0]} takes nothing and is done without: ")
    assert hint.startswith("hint: what is made here stays here")
