"""How much memory models, and a whole command, may take."""

import subprocess
import sys
from pathlib import Path

import pytest

from edgepack.cli import _in_two_lines
from edgepack.errors import EdgepackError
from edgepack.models.ort import free_memory, memory


def test_a_machine_without_proc_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a chroot it was called a bug."""
    monkeypatch.setattr(free_memory, "Path", lambda name: tmp_path / name.lstrip("/"))
    with pytest.raises(EdgepackError, match=r"/proc/\w+.*: No such file") as told:
        memory.memory_for()
    assert told.value.hint and "mount /proc" in told.value.hint


WHOLE = """
import resource
from pathlib import Path
from contextlib import suppress
import sys
from edgepack import cli
from edgepack.models.ort.free_memory import limit_process

cli.end, sys.argv[1:] = sys.exit, ["--version"]
with suppress(SystemExit):
    cli.main()
total = next(int(line.split()[1]) << 10 for line in open("/proc/meminfo") if line.startswith("MemTotal:"))
soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
assert total // 2 <= soft < 2 * total and hard == resource.RLIM_INFINITY, (soft, hard)
resource.setrlimit(resource.RLIMIT_DATA, (1 << 28, hard))
limit_process()
assert resource.getrlimit(resource.RLIMIT_DATA)[0] == 1 << 28, "a user's own"
Path("/dev/zero").read_bytes()
"""


@pytest.mark.tools("python")
def test_what_has_no_end_ends_before_the_machine_s_memory_does() -> None:
    """A link to /dev/zero in a stranger's folder took all of it."""
    done = subprocess.run([sys.executable, "-c", WHOLE], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.rstrip().endswith("MemoryError"), done.stderr
    assert "more memory than the machine has free" in _in_two_lines(MemoryError()).message


@pytest.mark.parametrize("said", ["", "MemTotal: 1024 kB\nMemFree: 512 kB\n"])
def test_a_machine_that_does_not_say_what_it_has_limits_nothing(
    monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """Kernels before 3.14, and what stands in for /proc in containers: every command ended in a traceback."""
    monkeypatch.setattr(free_memory, "_of_the_kernel", lambda file: said if "meminfo" in file else "0 " * 7)
    monkeypatch.setattr("resource.setrlimit", lambda *_: pytest.fail("limited"))
    free_memory.limit_process()
    with pytest.raises(EdgepackError, match="the memory that is free is not known: /proc/meminfo has no"):
        free_memory.free()


@pytest.mark.parametrize(
    ("most", "taken", "folder", "prefix"),
    [
        ("memory.max", "memory.current", ".", ""),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory", "total_"),
    ],
)
def test_a_container_has_what_its_group_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, most: str, taken: str, folder: str, prefix: str
) -> None:
    """Pages of files that were read are not taken for good: after a build there was nothing left."""
    (group := tmp_path / folder).mkdir(exist_ok=True)
    (group / most).write_text("1000000\n")
    (group / taken).write_text("900000\n")
    (group / "memory.stat").write_text(
        f"anon 300000\n{prefix}active_file 200000\n{prefix}inactive_file 400000\n"
    )
    monkeypatch.setattr(free_memory, "GROUP", tmp_path)
    assert free_memory.free() == 700_000 and free_memory._whole() == 1_000_000
    (group / most).write_text("max\n" if prefix == "" else f"{2**63 - 4096}\n")
    assert free_memory.free() > 10**8 and free_memory._whole() > 10**8
