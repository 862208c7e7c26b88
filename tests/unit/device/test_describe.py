"""What a device says of itself, and whether a bundle is for it; what its load took."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.devices import session_of

from edgepack.device.describe import describe
from edgepack.device.fit import fits, require_fit
from edgepack.device.speed import measure_speed, read_meter
from edgepack.errors import DeviceError, FloorError, ProofError
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.device import DeviceDescription
from edgepack.verifier.confined.limits import RunLimits
from edgepack.verifier.confined.program import Ended

shell = pytest.mark.tools("sh")


def described(said: str, context: HostContext) -> DeviceDescription:
    """A device that answers so."""

    def words(line: str) -> tuple[str, ...]:
        token = line.rpartition('echo "')[2].partition(":")[0]
        return ("sh", "-c", f"cat <<'END'\n{said}\nEND\necho '{token}:0' >&2")

    return describe(session_of(words), context=context).device


@shell
def test_a_board(context: HostContext) -> None:
    said = (
        "system=Linux\nmachine=aarch64\nkernel=6.6.31\nlibc=glibc 2.36\ncores=4\nmemory=8000000\nboard=A Board 5\n"
        "flags=fp asimd evtstrm aes crc32 atomics fphp asimdhp asimddp\nprocessor=\ngovernor=ondemand"
    )
    found = described(said, context)
    assert (found.machine, found.cores, found.memory) == ("aarch64", 4, 8_192_000_000)
    assert found.levels[-1] == "dotprod"
    assert found.governor == "ondemand" and found.board == "A Board 5"


@shell
@pytest.mark.parametrize(
    ("line", "name", "read"),
    [
        ("cores=-1", "cores", 0),
        ("cores=9999999999999999999999", "cores", 0),
        ("memory=x", "memory", 0),
        ("cores=\u0661", "cores", 0),
        ("libc=" + "x" * 500, "libc", "x" * 120),
        ("board=a\x1b[2Jb ✓", "board", "a\\x1b[2Jb \\u2713"),
        ("governor=a\tb", "governor", "a b"),
    ],
)
def test_odd_words_of_a_device(line: str, name: str, read: object, context: HostContext) -> None:
    found = described(f"system=Linux\nmachine=aarch64\n{line}", context)
    assert getattr(found, name) == read


@shell
@pytest.mark.parametrize("said", ["", "system=Linux", "machine=aarch64", "nonsense", "system=\nmachine="])
def test_a_device_that_does_not_say_what_it_is(said: str, context: HostContext) -> None:
    with pytest.raises(DeviceError, match="board does not say what system and processor it has"):
        described(said, context)


def bundle_for(**platform: Any) -> Bundle:
    manifest: dict[str, Any] = {
        "name": "b",
        "target": {"platform": platform},
        "files": [],
        "runtime": None,
        "runner": {"program": "embed"},
    }
    return Bundle(directory=Path("b"), manifest=manifest)


@pytest.mark.parametrize(
    ("platform", "device", "fit"),
    [
        ({"os": "linux", "arch": "aarch64"}, {"system": "Linux", "machine": "aarch64"}, True),
        ({"os": "linux", "arch": "x86_64"}, {"system": "Linux", "machine": "aarch64"}, False),
        ({"os": "linux", "arch": "armv7l"}, {"system": "Linux", "machine": "aarch64"}, True),
        ({"os": "linux", "arch": "aarch64"}, {"system": "Linux", "machine": "armv7l"}, False),
        ({"os": "linux", "arch": "x86_64"}, {"system": "Windows", "machine": "x86_64"}, False),
        ({"os": "windows", "arch": "x86_64"}, {"system": "Windows", "machine": "x86_64"}, True),
        ({"os": "linux", "arch": "aarch64"}, {"system": "Darwin", "machine": "aarch64"}, False),
    ],
)
def test_what_a_bundle_is_for(platform: Any, device: Any, fit: bool) -> None:
    assert fits(bundle_for(**platform), DeviceDescription(**device)) is fit


def test_a_bundle_for_cuda_is_refused_on_a_board_with_the_reason() -> None:
    bundle = bundle_for(os="linux", arch="x86_64")
    with pytest.raises(FloorError, match=r"^b is for x86_64, and pi4 is aarch64$"):
        require_fit(bundle, DeviceDescription(system="Linux", machine="aarch64"), named="pi4")


@pytest.mark.parametrize(
    ("libc", "refused"),
    [
        ("glibc 2.36", True),
        ("ldd (Debian GLIBC 2.36-9+deb12u14) 2.36 Copyright", True),
        ("ldd (GNU libc) 2.36", True),
        ("glibc 2.38", False),
        ("musl libc (x86_64) Version 1.2.5", False),
        ("", False),
    ],
)
def test_a_glibc_that_is_too_old(libc: str, refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = bundle_for(os="linux", arch="aarch64")
    bundle.manifest["files"].append({"path": "embed"})
    monkeypatch.setattr("edgepack.device.fit.architecture", lambda path: "aarch64")
    monkeypatch.setattr("edgepack.device.fit.glibc_floor", lambda path: "2.38")
    device = DeviceDescription(system="Linux", machine="aarch64", libc=libc)
    assert fits(bundle, device) is not refused
    if refused:
        with pytest.raises(FloorError, match=r"embed of b needs glibc 2\.38, and pi4 has 2\.36"):
            require_fit(bundle, device, named="pi4")


METER = (
    "meter-energy {before}\nmeter-clock 100\nmeter-clock 130\nmeter-energy {after}\n"
    "0m0.010s 0m0.020s\n1m20.500s 0m1.500s\n"
)


@pytest.mark.parametrize(
    ("energy", "before", "after", "joules"),
    [
        ("/sys/class/powercap/intel-rapl:0", 1_000_000, 91_000_000, 90.0),
        ("/sys/class/powercap/intel-rapl:0", 91_000_000, 1_000_000, None),
        ("/sys/class/power_supply/BAT0/energy_now", 50_000_000, 49_900_000, 360.0),
        ("/sys/class/power_supply/BAT0/energy_now", 49_900_000, 50_000_000, None),
    ],
)
def test_what_a_load_took(energy: str, before: int, after: int, joules: float | None) -> None:
    said = read_meter(METER.format(before=before, after=after), energy)
    assert said == (30.0, 82.0, joules)


@pytest.mark.parametrize("said", ["", "meter-clock x\nmeter-energy -1", "9" * 400, "1m2.3.4s 0m0s"])
def test_what_a_load_did_not_tell(said: str) -> None:
    assert read_meter(said, "/sys/class/powercap/intel-rapl:0") == (0.0, None, None)


class Answering:
    """A runner whose program says one thing."""

    def __init__(self, output: str, code: int = 0) -> None:
        self.ended = Ended(output=output, messages="", code=code)

    def run(self, bundle: Bundle, command: object, *, limits: RunLimits) -> Ended:
        assert limits.seconds <= 60, "it is ended before a slow device keeps anybody waiting"
        return self.ended


SPEED = {
    "threads": 4,
    "batch_size": 8,
    "load_ms": 2.0,
    "first_vector_ms": 3.2,
    "lengths": [{"tokens": 8, "text_ms": 0.27, "texts_per_second": 3108.4}],
    "peak_mb": 18.8,
}


def test_the_programs_own_measurement() -> None:
    runner: Any = Answering(json.dumps(SPEED))
    bundle = bundle_for()
    found = measure_speed(bundle, runner)
    assert found is not None
    assert (found.threads, found.lengths[0].texts_per_second, found.peak_mb, found.resident_mb) == (
        4,
        3108.4,
        18.8,
        None,
    )


@pytest.mark.parametrize(
    "said",
    [
        "",
        "[]",
        "null",
        "[" * 5000,
        json.dumps({**SPEED, "load_ms": -1}),
        json.dumps({**SPEED, "load_ms": "2"}),
        json.dumps({**SPEED, "threads": True}),
        json.dumps({**SPEED, "peak_mb": 1e300}),
        json.dumps({**SPEED, "load_ms": float("nan")}),
        json.dumps({**SPEED, "lengths": [{"tokens": 8}]}),
        json.dumps({**SPEED, "lengths": [{**SPEED["lengths"][0], "note": "x"}]}),  # type: ignore[index]
    ],
)
def test_a_measurement_that_is_none(said: str) -> None:
    runner: Any = Answering(said)
    bundle = bundle_for()
    with pytest.raises(ProofError, match="answered --bench with something else than figures"):
        measure_speed(bundle, runner)


@pytest.fixture(autouse=True)
def plain_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundles here have no files whose processor could be read."""
    monkeypatch.setattr("edgepack.verifier.confined.limits.architecture", lambda path: None)


@pytest.mark.parametrize("code", [-9, 9])
def test_a_device_that_is_too_slow_or_has_no_gpu_is_not_measured(code: int) -> None:
    runner: Any = Answering("", code)
    bundle = bundle_for()
    assert measure_speed(bundle, runner) is None
