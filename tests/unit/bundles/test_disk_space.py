"""Room on the disks, asked for before it is needed."""

from pathlib import Path

import pytest

from edgepack.bundles import disk_space
from edgepack.errors import DiskFullError

ELSEWHERE = Path("/dev/shm")
"""Another disk than that of temporary files."""


def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, *, output: Path, **sizes: int) -> None:
    monkeypatch.setattr(disk_space, "free_bytes", lambda path: free + disk_space.FLOOR)
    disk_space.require_room(output=output, cache=tmp_path / "cache", **sizes)


def test_what_is_on_one_disk_is_added_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"made": 20_000_000, "archives": 10_000_000, "cached": 5_000_000}
    ask(tmp_path, monkeypatch, 35_000_000, output=tmp_path / "dist", **sizes)
    with pytest.raises(DiskFullError) as caught:
        ask(tmp_path, monkeypatch, 34_999_999, output=tmp_path / "dist", **sizes)
    assert caught.value.message == (
        f"the disk that holds {tmp_path / 'dist'} has 51 MB free, and this build takes about 51 MB there"
    )


@pytest.mark.skipif(not ELSEWHERE.is_dir(), reason="needs a second disk")
def test_another_disk_is_another_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"made": 20_000_000, "archives": 10_000_000, "cached": 30_000_000}
    ask(tmp_path, monkeypatch, 30_000_000, output=ELSEWHERE / "dist", **sizes)
    with pytest.raises(DiskFullError, match=f"{ELSEWHERE}/dist") as caught:
        ask(tmp_path, monkeypatch, 29_999_999, output=ELSEWHERE / "dist", **sizes)
    assert "--output" in str(caught.value.hint)
