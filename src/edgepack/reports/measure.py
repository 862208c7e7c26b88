"""What a bundle weighs, part by part, and what its downloads cost."""

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgepack.bundles.manifest import ENCODED, LINK, MANIFEST, PARTS, digest, size_and_sha256
from edgepack.context import BuildContext
from edgepack.files.frames import HUGE
from edgepack.files.store import Store, default_root
from edgepack.records.bundle import Bundle
from edgepack.records.report import PackageSize, PartSize, Report, Verification, Visit
from edgepack.records.runtime import ONNX_RUNTIME
from edgepack.records.target import FORMATS
from edgepack.records.word import HERE, Word
from edgepack.reports.compressed import (
    BEST,
    BROTLI_LARGE,
    LARGER,
    QUICK,
    CompressedSize,
    compressed_sizes,
    total,
)
from edgepack.reports.cost import Prices, download_costs, load_prices

UNMATCHED = "operators not matched: the runtime is not reduced to the model's, or these are not known"
NO_RUNTIME = "no runtime: the program is all there is"


def unmatched(model_format: str) -> str:
    """Why a runtime was not held against a model of this format."""
    if model_format in FORMATS:
        return UNMATCHED
    return f"operators not matched: the model's file is no ONNX graph ({model_format})"


def weigh(bundle: Bundle, *, context: BuildContext | None = None) -> dict[str, CompressedSize]:
    """Path → compressed sizes of every file that is one; compressed copies count as what they are copies of.

    Each file is compressed by itself, as a server sends it: gzip -9, zstd -19 (weights as their frame in the archive), brotli 11 (7 above 4 MB), quicker ones above
    100 MB. Sizes are kept in the store by content, so that measuring again is quick.
    """
    contents = {
        file["path"]: file["sha256"]
        for file in bundle.manifest["files"]
        if file["mode"] != LINK and file["part"] != ENCODED
    }
    contents[MANIFEST] = size_and_sha256(bundle.directory / MANIFEST)[1]
    by_content = _compressed_sizes({sha: bundle.directory / path for path, sha in contents.items()}, context)
    return {path: by_content[sha256] for path, sha256 in contents.items()}


def measure(
    bundle: Bundle,
    verification: Verification,
    *,
    sizes: Mapping[str, CompressedSize],
    packages: Iterable[PackageSize] = (),
    prices: Prices | None = None,
    said_by: Word = HERE,
) -> Report:
    """Report of a bundle's sizes and costs: ``sizes`` are what ``weigh`` says, ``prices`` what ``prices_of`` says (edgepack's own).

    ``packages`` are the bundle's other forms, which are priced as the archive is. ``said_by``: whose word its manifest is; of a
    word that does not count, no check is said to have passed.
    """
    checks = tuple(bundle.manifest.get("checks", ())) if said_by.counts else ()
    table = prices or load_prices()
    parts = _parts(bundle, sizes)
    visits = _visits(bundle, sizes)
    archive_bytes = bundle.archive.stat().st_size if bundle.archive else None
    sent = archive_bytes if archive_bytes is not None else sum(part.zstd for part in parts)
    if visits:
        sent = visits[0].brotli
    return Report(
        bundle=bundle.name,
        target=str(bundle.manifest["target"]["name"]),
        parts=parts,
        archive_bytes=archive_bytes,
        costs=download_costs(sent, table),
        packages=tuple(replace(each, costs=download_costs(each.size, table)) for each in packages),
        verification=verification,
        notes=_notes(bundle, verification, checks, has_archive=archive_bytes is not None),
        warnings=tuple(
            each if said_by.counts else f"its maker says: {each}"
            for each in bundle.manifest["model"].get("warnings", ())
        ),
        digest=digest(bundle),
        visits=visits,
        prices=table.lists,
        about=_about(bundle.manifest),
        source_bytes=sum(int(file["size"]) for file in bundle.manifest["model"].get("source_files", ())),
        checks=checks,
        said_by=said_by,
    )


def _about(manifest: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Facts of the manifest that a person wants to know first; those that are missing are left out."""
    model, runtime, runner = manifest["model"], manifest.get("runtime") or {}, manifest.get("runner", {})
    named = (model.get("license"), model.get("origin"), model.get("recipe"), model.get("precision"))
    said = dict(zip(("license of the model", "found at", "recipe", "precision"), named, strict=True))
    length = model.get("max_length")
    rows = {
        "model": model.get("name"),
        **said,
        "vectors": f"{model['dimension']} dimensions, {length} tokens of a text" if length else None,
        "runtime": f"{runtime.get('name', ONNX_RUNTIME)} {runtime['version']} ({runtime['kind']})"
        if runtime
        else None,
        "program": runner.get("kind"),
        "made by": f"edgepack {manifest['edgepack']}" if "edgepack" in manifest else None,
    }
    return tuple((label, str(value)) for label, value in rows.items() if value)


def _parts(bundle: Bundle, sizes: Mapping[str, CompressedSize]) -> tuple[PartSize, ...]:
    part_of = {file["path"]: file["part"] for file in bundle.manifest["files"]} | {MANIFEST: "manifest"}
    others = sorted(set(part_of.values()) - {*PARTS, "manifest", ENCODED})
    found = {
        name: [size for path, size in sizes.items() if part_of[path] == name]
        for name in (*PARTS, *others, "manifest")
    }
    return tuple(_part_size(name, files) for name, files in found.items() if files)


def _visits(bundle: Bundle, sizes: Mapping[str, CompressedSize]) -> tuple[Visit, ...]:
    """Bytes of visits, by the compressed copies that the bundle brings, or as compressed here."""
    sent = {file["path"]: file["size"] for file in bundle.manifest["files"]}
    visits = []
    for name, listed in sorted(bundle.manifest.get("visits", {}).items()):
        paths = [path for path in listed if path in sizes]
        whole = total([sizes[path] for path in paths])
        visits.append(
            Visit(
                name=name,
                files=len(paths),
                raw=whole.raw,
                gzip=sum(sent.get(f"{path}.gz", sizes[path].gzip) for path in paths),
                brotli=sum(sent.get(f"{path}.br", sizes[path].brotli) for path in paths),
            )
        )
    return tuple(visits)


def _compressed_sizes(
    contents: Mapping[str, Path], context: BuildContext | None
) -> dict[str, CompressedSize]:
    if context is None:
        return compressed_sizes(contents, store=Store(root=default_root()))
    size = sum(path.stat().st_size for path in contents.values())
    with context.progress("compress by file", size, unit="B") as bar:
        return compressed_sizes(contents, store=context.store, advance=bar.advance)


def _part_size(name: str, sizes: list[CompressedSize]) -> PartSize:
    whole = total(sizes)
    return PartSize(
        name=name, files=len(sizes), raw=whole.raw, gzip=whole.gzip, brotli=whole.brotli, zstd=whole.zstd
    )


def _vectors(model: Mapping[str, Any]) -> str:
    """How the vectors are made, and what says so; bundles made before do not say the latter."""
    made = (
        model.get("vectors")
        or f"{model.get('pooling', 'unknown')} pooling{', normalized' if model['normalize'] else ''}"
    )
    origin = f" (from: {model['pooling_from']})" if "pooling_from" in model else ""
    return f"vectors: {model['dimension']} dimensions, {made}{origin}"


def _notes(
    bundle: Bundle, verification: Verification, checks: Sequence[str], *, has_archive: bool
) -> tuple[str, ...]:
    sent = f"one download of {'the archive' if has_archive else 'all files with zstd'} per device"
    if bundle.manifest.get("visits"):
        sent = "one first visit per visitor, files with brotli"
    brotli = f"brotli {BEST.brotli} ({LARGER.brotli} for files above {BROTLI_LARGE / 1e6:g} MB)"
    huge = any(int(file["size"]) > HUGE for file in bundle.manifest["files"])
    quick = (
        f"gzip -{QUICK.gzip}, brotli {QUICK.brotli} and zstd -{QUICK.zstd} of files above {HUGE / 1e6:g} MB"
    )
    arch = bundle.manifest["target"].get("platform", {}).get("arch", platform.machine())
    native = bundle.manifest["target"].get("platform", {}).get("os", "linux") == "linux"
    emulated = verification.texts > 0 and native and arch != platform.machine()
    copies = [file["size"] for file in bundle.manifest["files"] if file["part"] == ENCODED]
    warm = "a repeated visit: the files that are revalidated; for unchanged ones, a host that answers 304 sends only headers"
    runtime = bundle.manifest.get("runtime", {})
    other = runtime if runtime and "name" in runtime else None
    return (
        *([f"runtime: {other['name']} {other['version']} ({other['kind']})"] if other else []),
        *([NO_RUNTIME] if runtime is None else []),
        *(
            [unmatched(bundle.manifest["model"]["format"])]
            if runtime and runtime.get("operators") is None
            else []
        ),
        *([f"model and runtime fit: {', '.join(checks)}"] if checks else []),
        *([warm] if bundle.manifest.get("visits") else []),
        *([f"{len(copies)} compressed copies beside them, {sum(copies) / 1e6:.1f} MB"] if copies else []),
        *([f"its vectors were made under an emulator of {arch} on {platform.machine()}"] if emulated else []),
        _vectors(bundle.manifest["model"]),
        f"gzip -{BEST.gzip}, {brotli} and zstd -{BEST.zstd} (large weights without its long search) of each file by itself",
        *([quick] if huge else []),
        f"costs: {sent}, within one month; list egress prices only: check them against your contract",
    )
