"""Records of devices, made up: of a small bundle, by a device that passed."""

from dataclasses import replace
from typing import Any

from edgepack.records.device import DeviceDescription, DeviceResult, DeviceSpeed, LengthSpeed
from edgepack.records.report import Drawn, Verification

LIMITS = {"min_cosine": 0.985, "min_agreement": 0.9}


def verification(**changes: Any) -> Verification:
    """Figures of a good bundle."""
    good = Verification(
        status="passed",
        texts=200,
        mean_cosine=0.998,
        p1_cosine=0.995,
        min_cosine=0.99,
        neighbour_agreement=0.97,
        top10_agreement=0.96,
        batch_cosine=1.0,
        long_cosine=0.99,
        drawn=Drawn(texts=64, seed=7, mean_cosine=0.998, min_cosine=0.99),
        same_tokens=4200,
        limits=LIMITS,
    )
    return replace(good, **changes)


def result(id: str = "pi4", **changes: Any) -> DeviceResult:
    """What a board measured of it."""
    good = DeviceResult(
        id=id,
        transport="ssh",
        at="2026-11-24T12:00:00+00:00",
        edgepack="0.1.0",
        status="passed",
        device=DeviceDescription(
            system="Linux", machine="aarch64", kernel="6.6.31", libc="glibc 2.36", board="A Board 4", cores=4
        ),
        verification=verification(),
        vectors="ab" * 32,
        files_by="sha256sum",
        ran=("self-test", "vectors"),
        golden_cosine=0.997,
        speed=DeviceSpeed(
            threads=4,
            batch_size=8,
            load_ms=2.0,
            first_vector_ms=30.0,
            lengths=(LengthSpeed(tokens=8, text_ms=3.0, texts_per_second=700.0),),
            peak_mb=25.5,
        ),
    )
    return replace(good, **changes)
