"""How much memory models may take."""

from pathlib import Path

import pytest

from edgepack.errors import EdgepackError
from edgepack.models.ort import memory


def test_a_machine_without_proc_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a chroot it was called a bug."""
    monkeypatch.setattr(memory, "Path", lambda name: tmp_path / name.lstrip("/"))
    with pytest.raises(EdgepackError, match=r"/proc/\w+.*: No such file") as told:
        memory.memory_for()
    assert told.value.hint and "mount /proc" in told.value.hint
