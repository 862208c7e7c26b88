"""`embed search --polite`: the lowest priority, and a pause on battery."""

import ctypes
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.table_sample import write_native_sample

pytestmark = pytest.mark.tools("c++", may=("gcc", "cc"))

MAINS = {"type": "Mains", "online": "1"}
UNPLUGGED = {"type": "Mains", "online": "0"}
BATTERY = {"type": "Battery", "status": "Discharging"}
CHARGING = {"type": "Battery", "status": "Charging"}
MOUSE = {"type": "Battery", "scope": "Device", "status": "Discharging"}
IOPRIO_GET = {"x86_64": 252, "aarch64": 31}
TEXTS = "the kitten sat\na dog\na cat on a mat\n"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_native_sample(tmp_path_factory.mktemp("polite") / "bundle", features=("polite",)).program


def lay(folder: Path, **supplies: Mapping[str, str]) -> Path:
    for name, said in supplies.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for file, word in said.items():
            (folder / name / file).write_text(f"{word}\n")
    return folder


def search(program: Path, folder: Path, *words: str | Path) -> list[str | Path]:
    (folder / "notes.txt").write_text(TEXTS)
    (folder / "notes.txt.embed.npy").unlink(missing_ok=True)
    return [program, "search", *words, "a cat", folder / "notes.txt"]


def test_it_waits_on_battery_at_the_lowest_priority_and_goes_on_with_mains(
    program: Path, tmp_path: Path
) -> None:
    usual = subprocess.run(search(program, tmp_path), capture_output=True, text=True, check=True).stdout
    supplies = lay(tmp_path / "supplies", ac=UNPLUGGED, battery=BATTERY)
    command = search(program, tmp_path, "--polite", "--supplies", supplies)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as running:
        assert running.stderr is not None
        assert running.stderr.readline() == "note: on battery: it goes on when the machine is back on mains\n"
        assert os.sched_getscheduler(running.pid) == os.SCHED_IDLE
        assert os.getpriority(os.PRIO_PROCESS, running.pid) == 19
        get = ctypes.CDLL(None).syscall(IOPRIO_GET[platform.machine()], 1, running.pid)
        assert get >> 13 == 3
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(1.5)
        lay(supplies, ac=MAINS)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (0, usual)
    assert "on battery" not in err


@pytest.mark.parametrize(
    "supplies",
    [
        {},
        {"ac": MAINS, "battery": BATTERY},
        {"ac": UNPLUGGED, "battery": CHARGING},
        {"ac": UNPLUGGED, "mouse": MOUSE},
        {"ac": UNPLUGGED, "usb": {"type": "USB", "online": "2"}, "battery": BATTERY},
        {"battery": {"type": "Battery"}},
    ],
)
def test_it_does_not_wait_where_no_battery_gives_the_power(
    program: Path, tmp_path: Path, supplies: Mapping[str, Mapping[str, str]]
) -> None:
    folder = lay(tmp_path / "supplies", **supplies)
    command = search(program, tmp_path, "--polite", "--supplies", folder)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "on battery" not in done.stderr
    assert done.stdout.count("\n") == 3


def test_where_nobody_asks_nothing_waits(program: Path, tmp_path: Path) -> None:
    supplies = lay(tmp_path / "supplies", battery=BATTERY)
    command = search(program, tmp_path, "--supplies", supplies)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "on battery" not in done.stderr
