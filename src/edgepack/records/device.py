"""What a device is, and what was measured of a bundle on it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edgepack.records.report import Verification


@dataclass(frozen=True, kw_only=True)
class DeviceDescription:
    """A device in its own words; what it does not say is empty or 0."""

    system: str
    """As ``uname -s`` says it: ``Linux``, or ``Windows``."""
    machine: str
    """Processor architecture, as ``uname -m`` says it, e.g. ``aarch64``."""
    kernel: str = ""
    distribution: str = ""
    libc: str = ""
    processor: str = ""
    board: str = ""
    cores: int = 0
    memory: int = 0
    """Bytes."""
    levels: tuple[str, ...] = ()
    """CPU levels that its processor has, lowest first; the program chooses the highest that it has kernels for."""
    governor: str = ""
    """Of the first core's frequency."""
    gpu: str = ""


@dataclass(frozen=True, kw_only=True)
class LengthSpeed:
    """Texts of one length, as the program's ``--bench`` measures them."""

    tokens: int
    text_ms: float
    """Of a single text."""
    texts_per_second: float
    """In batches, on all threads."""


@dataclass(frozen=True, kw_only=True)
class DeviceSpeed:
    """How fast a device is with a bundle, and what that takes."""

    threads: int
    batch_size: int
    load_ms: float
    first_vector_ms: float
    """From the start of loading."""
    lengths: tuple[LengthSpeed, ...]
    resident_mb: float | None = None
    """Resident memory after the measurement; ``None``: the system does not tell the program."""
    peak_mb: float | None = None
    seconds: float = 0.0
    """Of the load: runs over the 200 texts, one after another; 0: none was run."""
    texts: int = 0
    """Of the load."""
    cpu_seconds: float | None = None
    """Processor time of the load; ``None``: the device does not tell."""
    kept_speed: float | None = None
    """Throughput after the load as a share of that before it: below 1, the device became slower."""
    joules: float | None = None
    """Energy of the load, the device's own idling included; ``None``: the device does not tell."""
    joules_by: str = ""
    """What told it: ``rapl`` or ``battery``."""


@dataclass(frozen=True, kw_only=True)
class DeviceResult:
    """Result of a bundle on one device."""

    id: str
    """How it is called here: the name that was given, or its address without a user."""
    transport: str
    at: str
    """Time in UTC, ISO 8601."""
    edgepack: str
    """Version that measured."""
    status: Literal["passed", "failed", "not verified"]
    device: DeviceDescription
    verification: Verification
    vectors: str = ""
    """SHA-256 of the vectors of the 200 texts, float32, little-endian; empty: there are none."""
    files_by: str = ""
    """What compared the files there with the manifest: a program of the device's, or ``read back``."""
    ran: tuple[str, ...] = ()
    """What of the bundle was run there."""
    golden_cosine: float | None = None
    """Lowest cosine of the program's own self-test; ``None``: it has none."""
    speed: DeviceSpeed | None = None


@dataclass(frozen=True, kw_only=True)
class DeviceFailure:
    """A device that the bundle failed on, or that failed: what `edgepack verify` says of it."""

    id: str
    message: str
    hint: str
    exit_code: int


@dataclass(frozen=True, kw_only=True)
class DeviceProof:
    """Result of `edgepack build --on` for one bundle on one device."""

    label: str
    """Of the bundle in the project."""
    device: str
    state: Literal["passed", "up to date", "failed", "not verified", "not there"]
    reason: str = ""
    """Why not passed."""
    exit_code: int = 0


@dataclass(frozen=True, kw_only=True)
class OnDevices:
    """Results of a bundle on devices."""

    results: tuple[DeviceResult, ...]
    failures: tuple[DeviceFailure, ...] = ()
    record: Path | None = None
    """The file with the results; ``None``: there are none."""
