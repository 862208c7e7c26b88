"""A small bundle, a registry, and what stands for a C library."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.registry import Registry, running_registry
from tests.support.signed import write_small_bundle

from edgepack.api import BuildContext
from edgepack.api.axes import TarEntry
from edgepack.fetch import http
from edgepack_oci.content import release
from edgepack_oci.content.layers import LIBC, Layer, make_layer
from edgepack_oci.content.reference import Reference, parse_reference
from edgepack_oci.push import Pushed, push

Push = Callable[..., Pushed]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Without anybody's credentials."""
    folder = tmp_path / "home"
    folder.mkdir()
    for name in ("REGISTRY_AUTH_FILE", "DOCKER_CONFIG", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture(autouse=True)
def libc(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer with a C library as far as its name goes."""

    def made(arch: str, *, context: BuildContext) -> Layer:
        return make_layer(LIBC, [TarEntry(name="lib/libc.so.6", source=arch.encode())], context=context)

    monkeypatch.setattr(release, "libc_layer", made)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry() as running:
        yield running


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nobody waits; what would have been waited for."""
    waited: list[float] = []
    monkeypatch.setattr(http, "pause", waited.append)
    return waited


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write_small_bundle(tmp_path / "sample")


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """The same for another processor."""
    folder = write_small_bundle(tmp_path / "other", b"#!/bin/false\n")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["name"] = "other"
    manifest["target"]["platform"]["arch"] = "aarch64"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture
def named(registry: Registry) -> Reference:
    return parse_reference(f"{registry.host}/team/embed:1.0")


@pytest.fixture
def pushed(context: BuildContext, bundle: Path, named: Reference) -> Pushed:
    return push([bundle], named, plain_http=False, context=context)
