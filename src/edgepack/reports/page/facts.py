"""What the page says beside the report: read from the bundle's folder, never by running anything of it."""

import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from edgepack.bundles.sbom import SBOM
from edgepack.context import BuildContext
from edgepack.errors import EdgepackError, UsageError
from edgepack.foundry.explain.sizes import Explanation, explain, find_composition
from edgepack.recipes.registry import PASS
from edgepack.records.bundle import Bundle
from edgepack.records.report import USUAL_TOKENS, Report, Speed
from edgepack.reports.build_info import command_of
from edgepack.reports.page.contents import Node, contents_of
from edgepack.runtimes.find import library_in, platform_of
from edgepack.toml_schema import parse_foreign, read_foreign

_PASS = re.compile(r"([\w-]+)(?:\((.*?)\))?(?:, |$)")
LONGEST = 4000
"""Letters of a recipe that are read: the time that takes grows with their square."""
MOST = 64 << 20
"""Bytes of a bill of materials, and of what a device measured."""
POOLED = "Pooling and normalisation, which model files leave to programs, become part of the graph: its output is the vector."


@dataclass(frozen=True, kw_only=True)
class PageFacts:
    contents: Node | None = None
    passes: tuple[tuple[str, str, str], ...] = ()
    """Of the recipe: name, parameters, and what it does."""
    components: tuple[tuple[str, str, str], ...] = ()
    """Name, version and licence of what is inside."""
    provenance: tuple[tuple[str, str], ...] = ()
    command: str = ""
    """What makes such a bundle again."""
    model: str = ""
    device: Speed | None = None
    """What `embed --bench` measured where the bundle runs."""
    recipes: tuple[tuple[str, int, float], ...] = ()
    """By which the same model was measured for the same target: name, bytes to download, mean cosine."""


def facts_of(
    bundle: Bundle,
    report: Report,
    *,
    bench: Path | None = None,
    recipes: tuple[tuple[str, int, float], ...] = (),
    context: BuildContext,
) -> PageFacts:
    """All that can be read; ``bench`` is what ``embed --bench --json`` wrote. Raises ``UsageError`` for another file."""
    manifest = bundle.manifest
    return PageFacts(
        contents=contents_of(bundle, partial(_explained, bundle, context)),
        passes=tuple(passes_of(str(manifest["model"].get("recipe", "")), context)),
        components=tuple(components_of(bundle)),
        provenance=tuple(_provenance(bundle, report)),
        command=command_of(manifest, report.made),
        model=str(manifest["model"]["name"]),
        device=None if bench is None else read_bench(bench),
        recipes=recipes,
    )


def read_bench(file: Path) -> Speed:
    """Figures that a device measured; raises ``UsageError`` for what is not that."""
    try:
        said = parse_foreign(read_foreign(file, most=MOST))
        length = min(said["lengths"], key=lambda each: abs(each["tokens"] - USUAL_TOKENS))
        figures = (
            said["peak_mb"],
            length["texts_per_second"],
            float(length["tokens"]),
            float(said["threads"]),
        )
        if min(figures) < 0:
            raise ValueError("a figure is below nothing")
        return Speed(
            peak_mb=float(figures[0]),
            texts_per_second=float(figures[1]),
            tokens=int(figures[2]),
            threads=int(figures[3]),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(
            f"{file} does not hold what a device measured",
            hint="`embed --bench --json > FILE` writes it there",
        ) from error


def _explained(bundle: Bundle, context: BuildContext, file: Path) -> Explanation | None:
    """The runtime's file taken apart; others are left whole."""
    if not bundle.manifest.get("runtime") or file != library_in(bundle.directory, work_dir=context.work_dir):
        return None
    form = platform_of(file, context.extensions("platform")).form
    return explain(file, find_composition(file, context.store), form=form)


def passes_of(recipe: str, context: BuildContext) -> Iterator[tuple[str, str, str]]:
    """Name, parameters and summary of each pass of a recipe, as a manifest writes it."""
    known = context.extensions(PASS)
    for name, parameters in _PASS.findall(recipe[:LONGEST]):
        found = known.get(name)
        said = POOLED if name == "pool" else found.summary if found else ""
        try:
            # edgepack's own say it at the top of their modules.
            said = (
                said
                or (sys.modules[found.make().__module__].__doc__ or "" if found else "").partition("\n")[0]
            )
        except (EdgepackError, KeyError, AttributeError):
            said = ""
        yield name, parameters, said


def components_of(bundle: Bundle) -> list[tuple[str, str, str]]:
    """Components of the bill of materials; nothing where there is none that can be read."""
    texts = {file["path"] for file in bundle.manifest["files"] if file["part"] == "licenses"}
    try:
        bill = parse_foreign(read_foreign(bundle.directory / "LICENSES" / SBOM, most=MOST))
        # Files are the bundle's own, each under its part already.
        return [_component(each, texts) for each in bill["components"] if each.get("type") != "file"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def _component(entry: Mapping[str, Any], texts: Collection[str]) -> tuple[str, str, str]:
    name, text = str(entry["name"]), f"LICENSES/{entry['name']}.txt"
    licence = ", ".join(filter(None, map(_licence, entry.get("licenses", ()))))
    return name, str(entry.get("version", "")), licence or (f"in {text}" if text in texts else "")


def _licence(entry: Mapping[str, Any]) -> str:
    inside = entry.get("license", {})
    return str(entry.get("expression") or inside.get("id") or inside.get("name") or "")


def _c_library(platform: Mapping[str, Any]) -> Iterator[str]:
    if glibc := platform.get("glibc"):
        yield f"with glibc {glibc} or newer"
    elif platform.get("libc") == "musl":
        yield "with any C library or none"


def _provenance(bundle: Bundle, report: Report) -> Iterator[tuple[str, str]]:
    """Rows on the bundle's origin that the report's own list lacks."""
    manifest = bundle.manifest
    target, runtime = manifest["target"], manifest.get("runtime") or {}
    yield "target", ": ".join(filter(None, (target["name"], target.get("summary", ""))))
    needs = [target.get("platform", {}).get("os"), target.get("platform", {}).get("arch")]
    yield "runs on", " ".join([*filter(None, needs), *_c_library(target.get("platform", {}))])
    if runtime.get("toolchain"):
        yield "compiled by", str(runtime["toolchain"])
    if made := report.made:
        yield "made", f"{made.at.replace('T', ' ').replace('+00:00', ' UTC')} on {made.machine}"
        if made.settings:
            yield "settings", ", ".join(made.settings)
    weights = max(manifest["model"].get("source_files", ()), key=lambda file: int(file["size"]), default=None)
    if weights:
        yield f"sha256 of {weights['path']}", str(weights["sha256"])
