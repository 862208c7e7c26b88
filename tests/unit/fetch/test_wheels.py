"""Files out of pinned wheels, fetched by the real pip from an index of ours."""

import hashlib
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from random import Random

import pytest
from packaging.version import Version
from tests.support.serving import Server, file, status
from tests.support.tiny import publish, wheel_of

from edgepack.errors import DiskFullError, DownloadError, EdgepackError, HashMismatchError
from edgepack.fetch import wheels
from edgepack.fetch.wheels import Wheel, wheel_files
from edgepack.plugins.context import HostContext

pytestmark = pytest.mark.tools("python")

FILES = {"gpu_lib/lib/libone.so": b"one", "gpu_lib/lib/libtwo.so": b"two" * 99, "gpu_lib/notes.txt": b"notes"}
ADDRESS = "/wheels/gpu_lib-1.0-py3-none-any.whl"


@pytest.fixture
def wheel(index: Server) -> Wheel:
    """What is pinned, and is on the index."""
    publish(index, FILES, name="gpu_lib")
    content = wheel_of(FILES, name="gpu_lib")[1]
    return Wheel(name="gpu-lib", version="1.0", sha256=hashlib.sha256(content).hexdigest(), size=len(content))


def refused(wheel: Wheel, context: HostContext) -> EdgepackError:
    with pytest.raises(EdgepackError) as caught:
        wheel_files(wheel, context=context)
    entries = context.store.root / "wheels"
    assert not entries.exists() or not list(entries.iterdir()), "nothing half-made"
    return caught.value


def test_the_files_that_are_wanted(
    wheel: Wheel, index: Server, online: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pip.py").write_text("raise SystemExit('code of the current folder')")
    folder = wheel_files(wheel, keep=("*/libone.so", "*.txt"), context=online)
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found - {".edgepack-entry.json"} == {"gpu_lib/lib/libone.so", "gpu_lib/notes.txt"}
    asked = len(index.asked)
    offline = replace(online, offline=True)
    assert wheel_files(wheel, keep=("*/libone.so", "*.txt"), context=offline) == folder
    assert len(index.asked) == asked, "from the store"


def test_another_file_under_the_same_name(wheel: Wheel, index: Server, online: HostContext) -> None:
    error = refused(replace(wheel, sha256="0" * 64), online)
    assert isinstance(error, HashMismatchError)
    assert wheel.sha256 in error.message


def test_a_wheel_that_is_not_there(wheel: Wheel, online: HostContext) -> None:
    error = refused(replace(wheel, version="2.0"), online)
    assert isinstance(error, DownloadError)
    assert "gpu-lib==2.0" in error.message


@pytest.mark.slow
def test_a_download_that_breaks_off(
    wheel: Wheel, index: Server, online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_RETRIES", "0")
    index.on(ADDRESS, file(wheel_of(FILES, name="gpu_lib")[1], ranges=False, cut=100))
    assert isinstance(refused(wheel, online), (DownloadError, HashMismatchError))
    index.on(ADDRESS, status(500))
    assert isinstance(refused(wheel, online), DownloadError)
    publish(index, FILES, name="gpu_lib")
    assert (wheel_files(wheel, context=online) / "gpu_lib/notes.txt").read_bytes() == b"notes"


@pytest.mark.skipif(
    Version(version("pip")) < Version("25.1"), reason="pip takes up interrupted downloads since 25.1"
)
def test_a_download_that_breaks_off_again_and_again(index: Server, online: HostContext) -> None:
    """What is here already is not fetched again."""
    files = {"gpu_lib/lib/libone.so": Random(1).randbytes(400_000)}
    content = wheel_of(files, name="gpu_lib")[1]
    publish(index, files, name="gpu_lib")
    index.on(ADDRESS, file(content, etag='"one"', cut=150_000))
    pinned = Wheel(
        name="gpu-lib", version="1.0", sha256=hashlib.sha256(content).hexdigest(), size=len(content)
    )
    folder = wheel_files(pinned, context=online)
    assert (folder / "gpu_lib/lib/libone.so").read_bytes() == files["gpu_lib/lib/libone.so"]
    begun = [each.headers.get("range", "bytes=0-") for each in index.asked if each.path == ADDRESS]
    assert len(begun) >= 3
    assert begun[-1] not in ("bytes=0-", begun[0])


def test_no_room_on_the_disk(
    wheel: Wheel, index: Server, online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, size: int) -> None:
        assert size >= 2.4 * wheel.size, "the wheel and what is unpacked of it, as NVIDIA packs them"
        raise DiskFullError(f"no space left on the disk that holds {path}")

    monkeypatch.setattr(wheels, "require_space", full)
    assert isinstance(refused(wheel, online), DiskFullError)
    assert ADDRESS not in index.paths(), "said before anything is fetched"


def test_an_index_that_does_not_stop_is_stopped(
    wheel: Wheel, index: Server, online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had filled the disk, or held the command for good with a byte now and then."""
    index.on(ADDRESS, file(Random(1).randbytes(4 << 20)))
    monkeypatch.setattr(wheels, "INDEX", 1 << 20)
    assert "File too large" in refused(wheel, online).message
    monkeypatch.setattr(wheels, "patience", lambda size: 0.01)
    assert "did not finish within 0.01 s" in refused(wheel, online).message


def test_offline(wheel: Wheel, index: Server, context: HostContext) -> None:
    error = refused(wheel, context)
    assert isinstance(error, DownloadError)
    assert "gpu-lib==1.0" in error.message
    assert index.asked == []
