"""A fleet as people build it: many cells on workers that die, and a build that is interrupted."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.berts import write_bert
from tests.support.kiosk import install, prepare_site

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
BUSY = """        folder.mkdir()
        import subprocess
        say = 'echo $PPID $$ >"$MARKS/.$$"; mv "$MARKS/.$$" "$MARKS/$$"; exec sleep 600'
        subprocess.Popen(["sh", "-c", say]).wait()
"""
"""What a cell is busy with: itself, and a program that it has started. It says who they are."""


@pytest.mark.parametrize(
    "how",
    [("--jobs", "2"), ("--executor", "dask", "--jobs", "2", "--store", "store")],
    ids=["processes", "dask"],
)
@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)],
)
def test_an_interrupted_build_says_so_and_leaves_nothing(
    how: tuple[str, ...], number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = prepare_site(tmp_path / "site", monkeypatch)
    install(site, monkeypatch, ("        folder.mkdir()\n", BUSY))
    for name in ("one", "two"):
        write_bert(tmp_path / name, num_hidden_layers=1)
    (tmp_path / "edgepack.toml").write_text('[[bundle]]\nmodels = ["one", "two"]\ntargets = ["kiosk-one"]\n')
    marks, temporary = tmp_path / "marks", tmp_path / "tmp"
    for folder in (marks, temporary):
        folder.mkdir()
    places = {"MARKS": marks, "TMPDIR": temporary, "EDGEPACK_CACHE": tmp_path / "cache", "PYTHONPATH": site}
    building = subprocess.Popen(
        [sys.executable, "-m", "edgepack", "build", "--offline", *how],
        cwd=tmp_path,
        env={**os.environ, **{name: str(place) for name, place in places.items()}},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    )
    while len(busy := [path for path in marks.iterdir() if path.name[0] != "."]) < 2:
        assert building.poll() is None, building.communicate()
        time.sleep(0.1)
    # A terminal interrupts all that run in it, a supervisor ends the one that it has started.
    (os.killpg if number == signal.SIGINT else os.kill)(building.pid, number)
    said, beside = building.communicate()
    assert (building.returncode, said) == (130, "")
    assert beside == "interrupted; no partial output was left behind\n"
    for pid in " ".join(path.read_text() for path in busy).split():
        assert ended(int(pid))
    assert not list(temporary.glob("edgepack-*"))
    assert not (tmp_path / "dist").exists() or not list((tmp_path / "dist").glob("*kiosk*"))


def ended(pid: int) -> bool:
    """Whether a process is no more; one that nobody has asked about yet counts as ended."""
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True


def test_a_fleet_with_killed_workers_is_what_one_machine_makes(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    command = [sys.executable, str(ROOT / "benchmarks/fleet.py"), "--models", "3", "--targets", "3"]
    how = [
        "--kill-every",
        "4",
        "--kills",
        "1",
        "--compared",
        "1",
        "--output",
        str(tmp_path / "fleet"),
        "--json",
        str(found),
    ]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, *how], cwd=tmp_path, env=env, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(found.read_text())
    assert said["first"]["workers killed"] == 1
    assert said["first"]["states"] == {"made": 9}
    assert said["second"]["states"] == {"from the store": 9} and said["second"]["compiled"] == []
    assert said["up to date"]["states"] == {"said to be up to date": 9}, "a store without a secret"
    assert said["one machine"]["states"] == {"made": 3} and not said["one machine"]["files that differ"]
    assert not said["same"]["files that differ"]
    assert said["sharded"]["states"] == {"made": 3} and not said["sharded"]["files that differ"]
