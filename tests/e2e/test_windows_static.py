"""The tests of ``test_windows.py`` on a table for Windows, which compiles for a minute and not for ten; run under wine."""

# mypy: disable-error-code="no-redef"
# Fixtures in the place of what * brings.

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.bundles import made_bundle
from tests.support.static_models import write_with_words
from tests.support.wine import required_wine

from edgepack.foundry.proof.emulator import find_system
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource

from .test_windows import *  # noqa: F403

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(1800)]  # in place of what * brings

LARGEST_PROGRAM, LARGEST_SERVER = 282_000, 408_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, minilm: ModelSource) -> Path:
    return write_with_words(tmp_path_factory.mktemp("model"), minilm.tokenizer)


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory, table: Path) -> Bundle:
    required_wine()
    folder = tmp_path_factory.mktemp("windows")
    return made_bundle("windows-x64-static", folder, "--model", str(table))


@pytest.fixture(scope="module")
def linux(tmp_path_factory: pytest.TempPathFactory, table: Path) -> Bundle:
    return made_bundle("linux-x86-static", tmp_path_factory.mktemp("linux"), "--model", str(table))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, table: Path) -> Bundle:
    required_wine()
    folder = tmp_path_factory.mktemp("served")
    return made_bundle("windows-x64-static", folder, "--model", str(table), "--set", "serve=true")


def test_the_program_is_small(windows: Bundle, served: Bundle) -> None:
    assert windows.program.stat().st_size <= LARGEST_PROGRAM
    assert served.program.stat().st_size <= LARGEST_SERVER
    assert windows.manifest["runtime"] is None


def test_its_server_checks_itself_however_busy_the_machine_is(
    served: Bundle, shared_context: HostContext
) -> None:
    """Of each hundred beside others, five waited for a minute: two threads woke the server at once; and as many did not end."""
    emulator = find_system("windows", served.program, context=shared_context)
    assert emulator is not None
    command = ["timeout", "30", *emulator.command("x86_64"), served.program, "serve", "--check", "--port=0"]

    def check(_: int) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(command, capture_output=True, check=False)

    with ThreadPoolExecutor(4) as pool:
        for done in pool.map(check, range(150)):
            assert done.returncode == 0, done.stderr
