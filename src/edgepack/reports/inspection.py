"""What a model is made of, for the terminal."""

from collections.abc import Iterator, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from edgepack.models.inspection import ModelInspection, OperatorCount
from edgepack.models.ort.providers import ProviderSupport
from edgepack.models.ort.releases import ReleaseSupport
from edgepack.models.read.static import UNLIMITED
from edgepack.records.suitability import Suitability
from edgepack.tables import Number, add_row, blocks, table
from edgepack.terminal_text import foreign_words

MISSING_SHOWN = 4
"""Operators that are named for a provider; ``--json`` has all."""


def render_inspection(inspection: ModelInspection) -> Group:
    """Facts, weights by part, operators before and after fusion, what hinders, and the recipe that fits."""
    inspection = foreign_words(inspection)
    warnings = [Text(f"warning: {warning}", style="yellow") for warning in inspection.warnings]
    hindrances = [Text(f"note: {hindrance}", style="yellow") for hindrance in inspection.hindrances]
    recipe = Text.assemble("by recipe ", (inspection.recipe, "bold"), f": {inspection.reason}")
    if (target := inspection.recommended) is not None:
        words = f"--target {target.target}" + (f" --recipe {target.recipe}" if target.recipe else "")
        recipe.append("\nrecommended: ").append(words, style="bold")
    lacking = [Text(_lacking(fit)) for fit in inspection.providers if fit.missing]
    tables = (_facts(inspection), _parts(inspection), _operators(inspection), _providers(inspection))
    return blocks(*tables, *lacking, *_targets(inspection), Text(), *warnings, *hindrances, recipe)


def _facts(inspection: ModelInspection) -> Table:
    made = table("", "", title=inspection.name)
    rows = {
        "architecture": inspection.architecture,
        "from": inspection.origin,
        "licence": inspection.license or "not stated",
        "vectors": f"{inspection.dimension} dimensions, {inspection.pooling.describe()}",
        "pooling from": inspection.pooling_from,
        "maximum length": "unlimited"
        if inspection.max_length == UNLIMITED
        else f"{inspection.max_length} tokens",
        "opset": str(inspection.opset),
        "inputs": ", ".join(f"{given.name} [{', '.join(given.shape)}]" for given in inspection.inputs),
        "shapes": "dynamic" if inspection.dynamic else "fixed",
        "ONNX Runtime": releases_in_words(inspection.releases),
    }
    if inspection.prompts:
        rows["prompts"] = ", ".join(f"{purpose} {text!r}" for purpose, text in inspection.prompts.items())
    if inspection.matryoshka:
        rows["Matryoshka dimensions"] = ", ".join(map(str, inspection.matryoshka))
    for name, value in rows.items():
        add_row(made, name, value)
    return made


def releases_in_words(releases: Sequence[ReleaseSupport]) -> str:
    """``1.23.2 to 1.32.0; 1.22.1 lacks opset 23, Attention 23``."""
    runs = [each.version for each in releases if not each.missing]
    if not runs:
        return f"none of {releases[0].version} to {releases[-1].version}; {_lacks(releases[-1])}"
    said = f"{runs[0]} to {runs[-1]}" if len(runs) > 1 else runs[0]
    # The nearest below says most: the older ones lack that, and more.
    older = [each for each in releases[: [each.version for each in releases].index(runs[0])] if each.missing]
    return f"{said}; {_lacks(older[-1])}" if older else said


def _lacks(release: ReleaseSupport) -> str:
    named = ", ".join(release.missing[:MISSING_SHOWN])
    more = f" and {len(release.missing) - MISSING_SHOWN} more" if len(release.missing) > MISSING_SHOWN else ""
    return f"{release.version} lacks {named}{more}"


def _parts(inspection: ModelInspection) -> Table:
    made = table("part", Number("millions"), title="parameters")
    for part in inspection.parts:
        add_row(made, part.name, f"{part.parameters / 1e6:.2f}")
    add_row(made, "all", f"{inspection.parameters / 1e6:.2f}", style="bold")
    return made


def _operators(inspection: ModelInspection) -> Table:
    made = table("as exported", Number(), "fused", Number(), title="operators")
    before, after = _counts(inspection.operators), _counts(inspection.fused_operators)
    for at in range(max(len(before), len(after))):
        left = before[at] if at < len(before) else ("", "")
        right = after[at] if at < len(after) else ("", "")
        add_row(made, *left, *right)
    return made


def _providers(inspection: ModelInspection) -> Table:
    made = table(
        "provider", Number("nodes"), "runs", Number("parts"), "form of the graph", title="execution providers"
    )
    for fit in inspection.providers:
        parts = "" if fit.partitions is None else str(fit.partitions)
        add_row(made, fit.provider, f"{fit.supported}/{fit.nodes}", fit.verdict, parts, fit.form)
    return made


def _targets(inspection: ModelInspection) -> list[Table]:
    """Tables of the targets that take the model, and of those that do not, with the reason."""
    taken = [row for row in inspection.targets if row.taken]
    made = table("target", "recipe", Number("archive MB"), Number("memory MB"), "best for", title="targets")
    for row in taken:
        sizes = ("" if size is None else f"{size / 1e6:.1f}" for size in (row.archive, row.memory))
        add_row(made, row.target, row.recipe or "its own", *sizes, row.best_for)
    refused = {row.target: (row.reason, row.hint) for row in inspection.targets if not row.taken}
    tables = [made] if taken else []
    if refused:
        not_taken = table("target", "why not", "instead", title="targets that refuse the model")
        for reason, hint in dict.fromkeys(refused.values()):
            names = ", ".join(name for name, why in refused.items() if why == (reason, hint))
            add_row(not_taken, names, reason, hint)
        tables.append(not_taken)
    return [*tables, *_choices(inspection.recommended)]


def _choices(recommended: Suitability | None) -> Iterator[Table]:
    """Recipes of the recommended target, where there are several to choose from."""
    if recommended is None or len(recommended.choices) < 2:
        return
    beside = recommended.measured_with
    made = table(
        "recipe",
        Number("archive MB"),
        Number(f"cosine of {beside}"),
        Number("lowest"),
        title=f"recipes for {recommended.target}",
    )
    for choice in recommended.choices:
        add_row(
            made,
            choice.recipe,
            f"{choice.archive / 1e6:.1f}",
            f"{choice.mean_cosine:.4f}",
            f"{choice.min_cosine:.4f}",
        )
    yield made


def _lacking(fit: ProviderSupport) -> str:
    missing = ", ".join(_short(name) for name in fit.missing[:MISSING_SHOWN])
    more = f" and {len(fit.missing) - MISSING_SHOWN} more" if len(fit.missing) > MISSING_SHOWN else ""
    return f"{fit.provider} lacks {missing}{more}"


def _counts(operators: Sequence[OperatorCount]) -> list[tuple[str, str]]:
    return [
        (" ".join((_short(f"{operator.domain}.{operator.name}"), *operator.types)), str(operator.count))
        for operator in operators
    ]


def _short(name: str) -> str:
    """An operator without the domain that goes without saying: a row fits into 80 columns."""
    return name.removeprefix("ai.onnx.")
