"""Fixtures for all tests: a context of its own for unit tests; the real model and the real bundle for e2e tests."""

import gc
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from edgepack.console import Story
from edgepack.files.store import Store
from edgepack.plugins.context import HostContext, host_context
from edgepack.plugins.host import PluginHost, load_plugins
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource
from tests.support import command
from tests.support.bundles import bundle_in, made_for_all
from tests.support.kept import keep_answers
from tests.support.once import made_once
from tests.support.resting_threads import let_threads_rest

# What is collected stays: to search it for garbage again and again is a fifth of the time that collecting takes.
gc.disable()
keep_answers()
let_threads_rest()

pytest_plugins = ["tests.support.doors", "tests.support.durations", "tests.support.tiers"]


def pytest_configure(config: pytest.Config) -> None:
    command.preload = not config.getoption("--slow")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than cores: while a test waits, for a program's time to be over or for what another process makes, one can run."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")
    parser.addoption(
        "--kinds", action="store_true", help="also build the runtimes that compile for most of an hour"
    )
    parser.addoption(
        "--gpu-wheels", action="store_true", help="also fetch and try NVIDIA's wheels, hundreds of megabytes"
    )
    parser.addoption(
        "--web",
        action="store_true",
        help="also compile and prove runtimes for browsers: 243 MB of compilers, minutes",
    )
    parser.addoption("--fuzz", default="300", help="how many fuzz texts a tokenizer is tried on")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether the golden files are to be written anew; look at the difference before you commit it."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def fuzz(request: pytest.FixtureRequest) -> int:
    """How many fuzz texts a tokenizer is tried on; ``pytest --fuzz 1000000`` for many."""
    return int(request.config.getoption("--fuzz"))


@pytest.fixture(scope="session")
def gpu_wheels(request: pytest.FixtureRequest) -> None:
    """For tests of wheels that are too large to be fetched unasked."""
    if not request.config.getoption("--gpu-wheels"):
        pytest.skip("only with --gpu-wheels")


@pytest.fixture(scope="session")
def online(request: pytest.FixtureRequest) -> Iterator[HostContext]:
    """A context on the user's cache that may fetch compilers and npm's packages."""
    if not request.config.getoption("--web"):
        pytest.skip("compiles for minutes with compilers of 243 MB: run with --web")
    with host_context(story=Story(quiet=True), offline=False) as made:
        yield made


@pytest.fixture
def context(tmp_path: Path) -> Iterator[HostContext]:
    """A host context whose store is empty and its own."""
    with host_context(story=Story(quiet=True), offline=True, store=Store(root=tmp_path / "store")) as made:
        yield replace(made, plugins=lambda: plugins_on(tuple(sys.path)))


@pytest.fixture(scope="module")
def kept_context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostContext]:
    """A host context whose store all tests of a file share: for those that ask for the same again and again."""
    store = Store(root=tmp_path_factory.mktemp("store"))
    with host_context(story=Story(quiet=True), offline=True, store=store) as made:
        yield replace(made, plugins=lambda: plugins_on(tuple(sys.path)))


@cache
def plugins_on(path: tuple[str, ...]) -> PluginHost:
    """The plugins that are installed; a test that installs others puts a folder of its own on the path."""
    return load_plugins()


@pytest.fixture(scope="session")
def shared_context() -> Iterator[HostContext]:
    """A context on the user's cache, where `edgepack fetch` put the model and the sources; fetches nothing itself."""
    with host_context(story=Story(quiet=True), offline=True) as made:
        yield made


@pytest.fixture(scope="session")
def minilm(shared_context: HostContext) -> ModelSource:
    """all-MiniLM-L6-v2 with its real weights."""
    from edgepack.models.find.source import ingest

    return ingest(None, context=shared_context)


@pytest.fixture(scope="session")
def bundle(native_bundle: Bundle) -> Bundle:
    """The real bundle, made by the real command from what is in the cache."""
    return native_bundle


@pytest.fixture(scope="session")
def frozen_bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """With the runner that is frozen with PyInstaller, and the native one's model."""
    return shared_bundle(tmp_path_factory, "linux-x86", "--recipe", "int8-download")


@pytest.fixture(scope="session")
def native_bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """With the native runner."""
    return shared_bundle(tmp_path_factory, "linux-x86-min")


@pytest.fixture(scope="session")
def library_bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """With the native runner, its server and libembed."""
    return shared_bundle(tmp_path_factory, "linux-x86-min", "--set", "library=true", "--set", "serve=true")


@pytest.fixture(scope="session")
def web_bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A folder for browsers, with npm's own runtime."""
    return shared_bundle(tmp_path_factory, "web-wasm", "--set", "runtime=stock")


def shared_bundle(factory: pytest.TempPathFactory, target: str, *options: str) -> Bundle:
    """What ``edgepack bundle`` makes of what is in the cache."""
    name = "-".join((target, *options[1::2]))
    folder = made_once(factory, name, lambda folder: made_for_all(target, folder, *options))
    return bundle_in(next(each for each in folder.iterdir() if each.is_dir()))
