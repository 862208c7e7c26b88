"""Ten ways to round all-MiniLM-L6-v2 for ``linux-x86-fast``: bytes of the archive, and what they cost in cosines, STSBenchmark and recall.

    PYTHONPATH=. python benchmarks/few_bytes.py --keep FOLDER        # FOLDER: what was measured; a run that was ended goes on

Each is a whole bundle, and its own program makes the vectors. Texts that no recipe was calibrated or judged with are one-line descriptions of
manual pages in six languages, functions of Python's library, and chapters of Python's reference as long as the model takes.
"""

import argparse
import ast
import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np
from benchmarks.frontier import letter, plot
from rich.console import Console
from rich.table import Table

from edgepack.console import Story
from edgepack.models.find.source import ingest
from edgepack.models.reference import cached_reference
from edgepack.plugins.context import HostContext, host_context
from edgepack.python_api import Bundle, bundle
from edgepack.quantization.importance import Importance
from edgepack.recipes.prepare import prepare_model
from edgepack.records.model import ModelSource
from edgepack.tables import Number, add_row, table
from edgepack.targets import overrides_of
from edgepack.verifier.metrics import compare
from edgepack.verifier.tasks.man_pages import translated_lines

TARGET = "linux-x86-fast"
UNJUDGED = ("min_cosine", "min_p1_cosine", "min_worst_cosine", "min_agreement", "min_top10")
FUSED: tuple[Mapping[str, Any], ...] = (
    {"pass": "fuse", "attention": "MultiHeadAttention", "embeddings": False},
    {"pass": "smooth"},
)
STEPS = ((4.5, 2.9), (5.6, 3.65), (3.6, 2.35), (7.7, 5.0), (3.3, 2.0), (6.6, 4.3), (2.7, 1.6))
"""Of matrices and of tables, as ``int8-compact`` has 4.15 and 2.7."""
SOME = 200


@dataclass(frozen=True, kw_only=True)
class Point:
    """A bundle, measured."""

    name: str
    archive: int
    model: int
    cosine: float
    lowest: float
    sts: float
    recall: float
    unseen: Mapping[str, tuple[float, float]]
    """Kind of texts → mean and lowest cosine."""


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--keep", type=Path, required=True)
    keep = options.parse_args().keep
    keep.mkdir(parents=True, exist_ok=True)
    with host_context(story=Story()) as context:
        source = ingest(None, context=context)
        texts = unseen(context)
        points = sorted(
            (point(name, recipe, source, texts, keep, context) for name, recipe in recipes()),
            key=lambda each: each.archive,
        )
    console = Console(width=170)
    console.print(shown(points))
    console.print(seen_by_none(points))
    for of in ("sts", "cosine"):
        found = [(each.archive, getattr(each, of)) for each in points]
        console.print(plot(found), markup=False, highlight=False)


def shown(points: Sequence[Point]) -> Table:
    made = table(
        "",
        "steps, or recipe",
        *map(Number, ("archive", "model", "200 texts: cosine, lowest", "STS-B", "recall@10")),
    )
    for at, each in enumerate(points):
        sizes = (f"{each.archive:,}", f"{each.model:,}")
        figures = (f"{each.cosine:.4f}, {each.lowest:.4f}", f"{each.sts:.4f}", f"{each.recall:.3f}")
        add_row(made, letter(at), each.name, *sizes, *figures)
    return made


def seen_by_none(points: Sequence[Point]) -> Table:
    """Cosines of the kinds of ``unseen``, and how many times as far from 1 as those of the gate's texts they are."""
    kinds = list(points[0].unseen)
    made = table("steps, or recipe", *map(Number, kinds))
    for each in points:
        cells = (
            f"{mean:.4f}, {lowest:.4f} ({(1 - mean) / (1 - each.cosine):.1f} ×)"
            for mean, lowest in each.unseen.values()
        )
        add_row(made, each.name, *cells)
    return made


def recipes() -> Iterator[tuple[str, Any]]:
    """Name, and what ``model.recipe`` is set to."""
    yield from ((name, name) for name in ("int8-download", "int8-compact", "int8-tiny"))
    for steps, table_steps in STEPS:
        rounded = {
            "steps": steps,
            "table_steps": table_steps,
            "rarity": 0.2,
            "weighed": True,
            "gradients": True,
        }
        passes = [*FUSED, {"pass": "int8-dynamic", **rounded}, {"pass": "trim"}]
        yield f"{steps}, {table_steps}", passes


def point(
    name: str,
    recipe: Any,
    source: ModelSource,
    texts: Mapping[str, Sequence[str]],
    keep: Path,
    context: HostContext,
) -> Point:
    file = keep / f"{name}.json"
    if file.exists():
        return Point(**json.loads(file.read_text()))
    settings = {
        "model.recipe": recipe,
        "model.max_sts_loss": 1,
        "model.max_retrieval_loss": 1,
        **{f"model.{limit}": 0 for limit in UNJUDGED},
    }
    overrides = overrides_of(settings, recipe=None, gate="full", packages=())
    target = context.plugins().target(TARGET, overrides)
    # As the builder does; the gradients of the first are those of all.
    prepare_model(
        source,
        options=replace(target.model, format="onnx"),
        platform=target.platform,
        kept=Kept(keep),
        context=context,
    )
    with tempfile.TemporaryDirectory() as folder:
        made = bundle(target=TARGET, output=folder, gate="full", settings=settings)
        found = {kind: nearness(made, some, source, context) for kind, some in texts.items()}
    judged = made.report.verification
    assert judged.retrieval is not None and judged.tasks[0].value is not None
    measured = Point(
        name=name,
        archive=made.report.archive_bytes or 0,
        model=next(each.zstd for each in made.report.parts if each.name == "model"),
        cosine=judged.mean_cosine,
        lowest=judged.min_cosine,
        sts=judged.tasks[0].value,
        recall=judged.retrieval.recall,
        unseen=found,
    )
    file.write_text(json.dumps(asdict(measured)))
    return measured


class Kept(dict[str, object]):
    """What passes measured, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str, default: object = None) -> object:
        if not (file := self._folder / f"{key}.npz").exists():
            return default
        with np.load(file) as arrays:
            parts: dict[str, dict[str, Any]] = {"inputs": {}, "outputs": {}, "columns": {}}
            for name in arrays.files:
                kind, _, of = name.partition("|")
                parts[kind][of] = arrays[name]
        return Importance(**parts)

    def __setitem__(self, key: str, value: object) -> None:
        assert isinstance(value, Importance)
        parts = asdict(value).items()
        np.savez(
            self._folder / f"{key}.npz",
            **{f"{kind}|{of}": array for kind, arrays in parts for of, array in arrays.items()},
        )


def nearness(
    made: Bundle, texts: Sequence[str], source: ModelSource, context: HostContext
) -> tuple[float, float]:
    found = compare(made.embed(texts), cached_reference(source, texts, context=context))
    return found.mean_cosine, found.min_cosine


def unseen(context: HostContext) -> dict[str, Sequence[str]]:
    lines = sorted(
        line for language, of in translated_lines(context).items() if language != "en" for line in of.values()
    )
    return {
        "languages": spread(lines),
        "code": spread(sorted(functions())),
        "long": [text for _, text in sorted(topics.items()) if len(text) > 1000],
    }


def functions() -> Iterator[str]:
    """Functions of modules at the top of Python's library, of a length that texts have."""
    for file in sorted(Path(ast.__file__).parent.glob("*.py")):
        text = file.read_text(encoding="utf-8")
        lines = text.splitlines()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                code = " ".join(" ".join(lines[node.lineno - 1 : node.end_lineno]).split())
                if 100 < len(code) < 500:
                    yield code


def spread(texts: Sequence[str]) -> Sequence[str]:
    """Some of them, by their digests."""
    return sorted(texts, key=lambda text: hashlib.sha256(text.encode()).digest())[:SOME]


if __name__ == "__main__":
    main()
