"""How fast a device is with a bundle: the program's own measurement, and a load of half a minute."""

import json
import re
from dataclasses import replace
from typing import Any

from edgepack.device.describe import Described
from edgepack.device.placed import Placed
from edgepack.device.program import GRACE, KILL, KILLED
from edgepack.errors import ProofError
from edgepack.records.bundle import Bundle
from edgepack.records.device import DeviceSpeed, LengthSpeed
from edgepack.records.report import USUAL_TOKENS, Speed
from edgepack.toml_schema import Malformed, read_table
from edgepack.verifier.confined.limits import limits_for
from edgepack.verifier.gate import verification_texts
from edgepack.verifier.memory import why_not
from edgepack.verifier.run import NO_DEVICE, BundleRunner, failure_of

LOAD = 30.0
"""Seconds of the load, about."""
OWN, LONGEST_LOAD = 30.0, 60.0
"""Seconds after which the program's own measurement, which is made before and after, and the load are given up: two minutes in all."""
MOST = 200
"""Times that the 200 texts are embedded, at most."""
LARGEST = 1e9
"""Above any figure of a device."""


def measure_speed(bundle: Bundle, runner: BundleRunner) -> DeviceSpeed | None:
    """Figures of the program's ``--bench``; ``None`` where the GPU that it needs is missing, or the device takes
    longer than ``OWN`` seconds.

    Raises ``ProofError`` for an answer that is none.
    """
    limits = replace(limits_for(bundle), seconds=OWN)
    ended = runner.run(bundle, [bundle.program, "--bench", "--json"], limits=limits)
    if ended.code in (NO_DEVICE, -KILL):
        return None
    if ended.code != 0:
        raise failure_of(bundle, ended, limits_for(bundle))
    try:
        said: Any = json.loads(ended.output)
        lengths = tuple(_length(row) for row in said["lengths"])
        return DeviceSpeed(
            threads=int(_figure(said["threads"])),
            batch_size=int(_figure(said["batch_size"])),
            load_ms=_figure(said["load_ms"]),
            first_vector_ms=_figure(said["first_vector_ms"]),
            lengths=lengths[:16],
            resident_mb=_figure(said["resident_mb"]) if "resident_mb" in said else None,
            peak_mb=_figure(said["peak_mb"]) if "peak_mb" in said else None,
        )
    except (Malformed, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ProofError(
            f"the program of {bundle.name} answered --bench with something else than figures"
        ) from error


def speed_here(bundle: Bundle, runner: BundleRunner) -> Speed | None:
    """The program measured on this host, where that is as a device would run it; ``None`` elsewhere, with a note that says why."""
    if reason := why_not(bundle):
        runner.context.note(f"speed not measured: {reason}")
        return None
    found = measure_speed(bundle, runner)
    if found is None or not found.lengths:
        runner.context.note("speed not measured: it takes longer than half a minute")
        return None
    length = min(found.lengths, key=lambda each: abs(each.tokens - USUAL_TOKENS))
    return Speed(
        threads=found.threads,
        tokens=length.tokens,
        texts_per_second=length.texts_per_second,
        peak_mb=found.peak_mb,
    )


def with_load(
    before: DeviceSpeed, bundle: Bundle, placed: Placed, runner: BundleRunner, found: Described
) -> DeviceSpeed:
    """Speed with what the device does under a load of ``LOAD`` seconds: processor time, energy, and how much slower it is then."""
    texts = verification_texts()
    # The texts have some 20 tokens: at the slower of the rates around that the load does not grow beyond what was meant.
    rate = min(
        each.texts_per_second for each in before.lengths if each.tokens <= 32 or each == before.lengths[0]
    )
    times = min(max(round(LOAD * rate / len(texts)), 1), MOST)
    input = "".join(json.dumps({"text": text}) + "\n" for text in texts * times)
    session, shell = placed.session, placed.session.shell
    program = str(bundle.manifest["runner"]["program"])
    words = [program, "--jsonl", "--out", "raw", "--dtype", "binary"]
    said = session.ask(
        shell.metered(shell.program(placed.folder, words, LONGEST_LOAD), found.energy),
        f"{bundle.name} ran under load",
        input=input.encode(),
        seconds=LONGEST_LOAD + GRACE,
        most=limits_for(bundle).output,
    )
    if said.code == KILLED:
        return before
    if said.code != 0:
        raise ProofError(f"the program of {bundle.name} failed under load: {said.last_words or said.code}")
    after = measure_speed(bundle, runner)
    seconds, cpu, joules = read_meter(said.messages, found.energy)
    return replace(
        before,
        seconds=seconds,
        texts=len(texts) * times,
        cpu_seconds=cpu,
        kept_speed=round(_throughput(after) / _throughput(before), 3) if after else None,
        joules=joules,
        joules_by="" if joules is None else "rapl" if "rapl" in found.energy else "battery",
    )


def read_meter(messages: str, energy: str) -> tuple[float, float | None, float | None]:
    """Seconds, processor seconds and joules, of what ``Shell.metered`` had written; ``None``: not said."""
    clock = [float(each) for each in re.findall(r"^meter-clock ([0-9]{1,15})", messages, re.MULTILINE)]
    seconds = max(clock[-1] - clock[0], 0.0) if len(clock) > 1 else 0.0
    pairs = re.findall(r"^([0-9]{1,9})m([0-9.]{1,9})s ([0-9]{1,9})m([0-9.]{1,9})s", messages, re.MULTILINE)
    try:
        # The last line is of what the shell started.
        cpu = sum(60 * float(minutes) + float(rest) for minutes, rest in (pairs[-1][:2], pairs[-1][2:]))
    except (IndexError, ValueError):
        cpu = -1.0
    counts = [int(each) for each in re.findall(r"^meter-energy ([0-9]{1,18})", messages, re.MULTILINE)]
    joules = None
    if len(counts) == 2:
        # A counter of microjoules goes up, a battery of microwatt hours down.
        taken = (counts[1] - counts[0]) / 1e6 if "rapl" in energy else (counts[0] - counts[1]) * 3600 / 1e6
        joules = round(taken, 2) if taken > 0 else None
    return seconds, None if cpu < 0 else round(cpu, 2), joules


def _throughput(speed: DeviceSpeed) -> float:
    return max(speed.lengths[-1].texts_per_second, 1e-9)


def _length(row: Any) -> LengthSpeed:
    read = read_table(LengthSpeed, row)
    for value in (read.tokens, read.text_ms, read.texts_per_second):
        _figure(value)
    return read


def _figure(value: Any) -> float:
    """A number that a device may say. Raises ``ValueError``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= LARGEST:
        raise ValueError("no figure")
    return float(value)
