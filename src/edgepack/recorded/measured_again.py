"""A finished bundle measured again; what cannot be measured is what was recorded, as a result or as its maker's word."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgepack.building.outcome import report_file_of
from edgepack.bundles.archive import with_archive
from edgepack.bundles.manifest import digest, open_bundle
from edgepack.errors import BundleError
from edgepack.plugins.context import HostContext
from edgepack.recorded.beside import record_beside
from edgepack.recorded.devices import record_of, with_devices
from edgepack.recorded.whose_word import word_of_bundle
from edgepack.records.bundle import Bundle
from edgepack.records.report import BuildInfo, Memory, PackageSize, Report, Speed, Verification
from edgepack.records.runtime import LevelProof
from edgepack.reports.cost import prices_of
from edgepack.reports.measure import measure, weigh
from edgepack.reports.sections import with_sections
from edgepack.signing.keys import PublicKey
from edgepack.toml_schema import Malformed, check_value, read_table
from edgepack.verifier.facts import OWN_LIMITS, limits_of

NOT_RUN = Verification(status="not verified", reason="not run now; `edgepack verify` does")
FINDS_OUT = "`edgepack verify` finds out"
_CLAIMS = {
    "passed": "its maker says that it passed",
    "failed": "its maker says that it failed",
    "not verified": "its maker has not verified it",
}


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Parts of a report that cannot be measured again without running the bundle."""

    verification: Verification = NOT_RUN
    proofs: tuple[LevelProof, ...] = ()
    made: BuildInfo | None = None
    memory: Memory | None = None
    speed: Speed | None = None


def report_again(
    path: Path, *, prices: Path | None = None, key: PublicKey | None = None, context: HostContext
) -> Report:
    """Measure a bundle; its verification, proofs and packages are those that the build wrote beside it, when of this very bundle.

    They are results where that report was written here, or is signed with ``key``; else they are what its maker says. Raises
    ``BundleError``, and ``SignatureError`` where a bundle was neither made here nor signed with ``key``.
    """
    bundle = with_archive(open_bundle(path))
    said_by = word_of_bundle(bundle, key=key, store=context.store)
    limits = limits_of(bundle.manifest) if said_by.counts else OWN_LIMITS
    record = record_beside(bundle.directory, key=key, store=context.store)
    packages: tuple[PackageSize, ...] = ()
    recorded = Recorded()
    if record is not None and record.content.get("digest") == digest(bundle):
        said_by = record.said_by
        recorded, packages = _read(bundle, record.content)
        recorded = recorded if said_by.counts else _as_claims(recorded)
    table = prices_of(prices, context)
    report = measure(
        bundle,
        recorded.verification,
        sizes=weigh(bundle),
        packages=packages,
        prices=table,
        said_by=said_by,
    )
    report = replace(
        report, proofs=recorded.proofs, made=recorded.made, memory=recorded.memory, speed=recorded.speed
    )
    report = with_sections(bundle, report, context=context)
    devices = record_of(bundle, key=key, store=context.store)
    return report if devices is None else with_devices(report, devices, limits)


def _read(bundle: Bundle, content: Mapping[str, Any]) -> tuple[Recorded, tuple[PackageSize, ...]]:
    """Raises ``BundleError`` for what edgepack does not write."""
    try:
        recorded = Recorded(
            verification=read_table(Verification, content["verification"], where="verification"),
            proofs=check_value(tuple[LevelProof, ...], content.get("proofs", []), "proofs"),
            made=read_table(BuildInfo, content["made"], where="made") if "made" in content else None,
            memory=read_table(Memory, content["memory"], where="memory") if "memory" in content else None,
            speed=read_table(Speed, content["speed"], where="speed") if "speed" in content else None,
        )
        return recorded, tuple(_packages_beside(bundle, content))
    except (Malformed, TypeError, KeyError, ValueError, AttributeError, OSError) as error:
        raise BundleError(
            f"{report_file_of(bundle.directory)} is damaged: {error}",
            hint="remove it: without it, sizes and costs are measured",
        ) from error


def _packages_beside(bundle: Bundle, content: Mapping[str, Any]) -> Iterator[PackageSize]:
    """Those that the build made and that are still there with the size that they had."""
    for each in content.get("packages", ()):
        package = PackageSize(form=str(each["form"]), file=str(each["file"]), size=int(each["size"]))
        path = bundle.directory.with_name(package.file)
        if path.is_file() and path.stat().st_size == package.size:
            yield package


def _as_claims(recorded: Recorded) -> Recorded:
    """Figures as somebody's word: no figure beside a limit, nothing proved, no words of theirs."""
    found = recorded.verification
    figures = f", with a mean cosine of {found.mean_cosine:.4f}" if found.texts else ""
    reason = f"{_CLAIMS[found.status]}{figures if found.status == 'passed' else ''}; {FINDS_OUT}"
    proofs = tuple(
        LevelProof(
            level=each.level,
            proved=False,
            reason=f"its maker says that it was{'' if each.proved else ' not'}",
        )
        for each in recorded.proofs
    )
    return Recorded(verification=Verification(status="not verified", reason=reason), proofs=proofs)
