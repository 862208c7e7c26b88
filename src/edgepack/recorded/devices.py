"""What devices measured of a bundle, as reports and `edgepack verify --on` show it."""

import os
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Group
from rich.table import Table
from rich.text import Text

from edgepack.bundles.manifest import digest
from edgepack.device.record import DeviceRecord, falls_short, read_record, record_file_of
from edgepack.errors import BundleError
from edgepack.files.store import Store
from edgepack.records.bundle import Bundle
from edgepack.records.device import DeviceDescription, DeviceResult, OnDevices
from edgepack.records.figures import figures_of
from edgepack.records.report import Report, Section
from edgepack.records.target import ModelOptions
from edgepack.signing.keys import PublicKey
from edgepack.tables import add_row, blocks, megabytes, table
from edgepack.terminal_text import foreign, foreign_words


def record_of(bundle: Bundle, *, key: PublicKey | None, store: Store) -> DeviceRecord | None:
    """The record that lies beside a bundle's folder, where it is of this very bundle. Raises ``SignatureError``."""
    file = record_file_of(bundle.directory, bundle.name)
    if not os.path.lexists(file):
        return None
    try:
        subject, record = read_record(file, key=key, store=store)
    except BundleError:
        return None
    return record if subject == digest(bundle) else None


def with_devices(report: Report, record: DeviceRecord, limits: ModelOptions) -> Report:
    """The report with a section of devices; a bundle that its builder could not verify is verified on the first that it passed on by these limits."""
    title = "proved on" if record.said_by.counts else "devices, as its maker says"
    rows = tuple((_who(each), _said(each, limits, counts=record.said_by.counts)) for each in record.results)
    section = Section(name="devices", title=title, rows=rows)
    verification = report.verification
    passed = [each for each in record.results if not falls_short(each, limits)]
    if verification.status == "not verified" and passed and record.said_by.counts:
        verification = replace(passed[0].verification, on=foreign(passed[0].id))
    return replace(report, sections=(section, *report.sections), verification=verification)


def render_devices(found: OnDevices) -> Group:
    """A column for each device: what it is, each figure, and the outcome."""
    results = foreign_words(found.results)
    made = table("", *(each.id for each in results), title="run on devices")
    for name, values in _rows(results).items():
        add_row(made, name, *values)
    lines: list[Table | Text] = [made] * bool(results)
    said = dict.fromkeys(word for each in results for word in each.verification.said)
    lines += [Text(f"said by its maker, compared with nothing: {'; '.join(said)}")] * bool(said)
    lines += [Text(f"{each.id}: {_outcome(each)}", style=_STYLES[each.status]) for each in results]
    if found.record is not None:
        lines.append(Text(f"record: {found.record}"))
    return blocks(*lines)


def _rows(results: Sequence[DeviceResult]) -> dict[str, list[str]]:
    """Rows of each thing that any device has: its cell for each of them."""
    each = [_cells(result) for result in results]
    names = list(dict.fromkeys(name for cells in each for name in cells))
    return {name: [cells.get(name, "") for cells in each] for name in names}


def _cells(result: DeviceResult) -> dict[str, str]:
    device, speed = result.device, result.speed
    cells = {
        "processor": _processor(device),
        "system": " ".join(filter(None, (device.distribution or device.system, device.kernel, device.libc))),
        "CPU level": device.levels[-1] if device.levels else "",
        "levels run, too": ", ".join(result.verification.levels),
        "GPU": device.gpu,
        "files compared by": result.files_by,
    }
    if result.golden_cosine is not None:
        cells["golden vectors"] = f"{result.golden_cosine:.4f}"
    for figure in figures_of(result.verification):
        cells[figure.name] = f"{figure.text} {figure.limit_text} {figure.mark}".strip()
    if speed is not None:
        cells["first vector"] = f"{speed.first_vector_ms:.1f} ms"
        for length in speed.lengths:
            cells[f"texts of {length.tokens} tokens"] = (
                f"{length.text_ms:.2f} ms, {length.texts_per_second:,.0f} a second in batches"
            )
        if speed.peak_mb is not None:
            cells["memory at peak"] = f"{speed.peak_mb:.1f} MB"
        cells |= _load(result)
    return {name: value for name, value in cells.items() if value}


def _load(result: DeviceResult) -> dict[str, str]:
    """Load of ``--bench`` and what it took."""
    speed = result.speed
    if speed is None or not speed.texts:
        return {}
    cells = {"load": f"{speed.texts:,} texts in {speed.seconds:.0f} s"}
    if speed.cpu_seconds is not None:
        cells["processor time"] = f"{speed.cpu_seconds:.1f} s"
    if speed.kept_speed is not None:
        cells["speed after the load"] = f"{speed.kept_speed:.0%} of that before"
    cells["energy"] = "not told" if speed.joules is None else f"{speed.joules:,.1f} J ({speed.joules_by})"
    cells["governor"] = result.device.governor
    return cells


def _processor(device: DeviceDescription) -> str:
    said = ", ".join(filter(None, (device.board, device.processor)))
    cores = f", {device.cores} cores" if device.cores else ""
    memory = f", {megabytes(device.memory)} MB" if device.memory else ""
    return f"{device.machine}{f' ({said})' if said else ''}{cores}{memory}"


def _who(result: DeviceResult) -> str:
    return f"{result.id} ({result.device.machine})"


def _said(result: DeviceResult, limits: ModelOptions, *, counts: bool) -> str:
    if not counts:
        return f"{result.status}, says its maker"
    if result.status == "passed" and (short := falls_short(result, limits)):
        return f"passed by lower limits than the bundle's: {short}"
    about = ", ".join(
        filter(None, (result.device.board or result.device.processor, result.device.distribution))
    )
    return f"{_outcome(result)}{f'; {about}' if about else ''}; {result.at[:10]}"


def _outcome(result: DeviceResult) -> str:
    found = result.verification
    if result.status != "passed":
        return f"{result.status}: {found.reason}"
    return f"passed, mean cosine {found.mean_cosine:.4f}"


_STYLES = {"passed": "green", "failed": "red", "not verified": "yellow"}
