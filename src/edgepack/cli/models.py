"""The commands that make a model small, or convert it, without making a bundle."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgepack.cli.help import example
from edgepack.cli.options import (
    common_options,
    file_option,
    model_argument,
    names_of,
    offline_option,
    output_option,
    reading_options,
)
from edgepack.cli.output import print_json, print_rows, say
from edgepack.files.folder import NOTHING, OPERATOR_LIST, ORT_MODEL
from edgepack.records.target import FORMATS, Reading

if TYPE_CHECKING:
    from edgepack.python_api import Quantized
    from edgepack.records.operators import Operators

SCHEMA = 1
LEVELS = ("none", "basic", "extended", "all")
STYLES = ("fixed", "runtime")


@click.command(epilog=example("edgepack quantize ./my-model --recipe int4 --format onnx --output small"))
@model_argument
@reading_options
@click.option(
    "-r",
    "--recipe",
    default="int8",
    show_default=True,
    metavar="NAME",
    shell_complete=names_of("recipe"),
    help="Quantization recipe.",
)
@click.option(
    "-f",
    "--format",
    type=click.Choice(FORMATS),
    default="ort",
    show_default=True,
    help="Format of the model file.",
)
@file_option("--calibration", "Calibration texts, one per line, for recipes that measure activations.")
@click.option(
    "--isa", multiple=True, metavar="NAME", help="CPU feature of the device, e.g. avx512_vnni (repeatable)."
)
@output_option("quantized", "Output folder.", metavar="PATH")
@offline_option
@common_options
def quantize(model: str | None, as_json: bool, **options: Any) -> None:
    """Quantize a model and write it to a folder with its tokenizer."""
    from edgepack import python_api

    made = python_api.quantize(model, **options, progress=not as_json)
    if as_json:
        print_json(_as_dict(made))
    else:
        row = _row(made)
        print_rows([row], as_json=False, columns=tuple(row))


def _as_dict(made: Quantized) -> dict[str, Any]:
    """Result as plain data (schema 1): the model that was made, and how near it is to the original."""
    return {
        "schema": SCHEMA,
        "file": str(made.file),
        "bytes": made.size,
        "recipe": made.recipe,
        "precision": made.precision,
        "batch_dependent": made.batch_dependent,
        "operators": made.operators,
        "quality": asdict(made.verification),
        "warnings": list(made.warnings),
    }


def _row(made: Quantized) -> dict[str, str]:
    return {
        "file": str(made.file),
        "MB": f"{made.size / 1e6:.2f}",
        "precision": made.precision,
        "operators": str(made.operators),
        "mean cosine": f"{made.verification.mean_cosine:.5f}",
        "min cosine": f"{made.verification.min_cosine:.5f}",
        "nearest kept": f"{made.verification.neighbour_agreement:.1%}",
    }


@click.command(epilog=example("edgepack convert ./my-model --output model.ort"))
@model_argument
@reading_options
@click.option(
    "--style",
    type=click.Choice(STYLES),
    default="fixed",
    show_default=True,
    help="fixed: apply all optimizations now; runtime: leave those that depend on execution providers to the device.",
)
@click.option(
    "--level",
    type=click.Choice(LEVELS),
    default="all",
    show_default=True,
    help="Graph optimization level.",
)
@file_option(
    "--save-optimized",
    "Also write the optimized graph as ONNX, for viewers such as Netron, to a new file.",
    replaces=NOTHING,
)
@file_option(
    "--operators",
    "Also write the operators and types that the model needs, as a reduced-build config.",
    replaces=OPERATOR_LIST,
)
@output_option("model.ort", "Output file.", metavar="PATH", replaces=ORT_MODEL)
@offline_option
@common_options
def convert(
    model: str | None,
    reading: Reading,
    style: str,
    level: Any,
    save_optimized: Path | None,
    operators: Path | None,
    output: Path,
    offline: bool,
    as_json: bool,
) -> None:
    """Convert a model to ORT format for minimal ONNX Runtimes."""
    from edgepack.console import Story
    from edgepack.models.find.source import ingest
    from edgepack.plugins.context import host_context
    from edgepack.recipes.model_files import convert_model

    story = Story(quiet=as_json)
    with host_context(story=story, offline=offline) as context:
        with story.step("model"):
            source = ingest(model, reading=reading, context=context)
        with story.step("convert"):
            made = convert_model(
                source,
                output,
                level=level,
                runtime_optimizations=style == "runtime",
                optimized=save_optimized,
                context=context,
            )
    if operators is not None:
        _write_operators(made.needs, operators)
    if as_json:
        names = sorted(f"{each.domain}:{each.name}({each.since})" for each in made.needs.kernels)
        print_json({"file": str(made.file), "bytes": made.file.stat().st_size, "operators": names})
    else:
        say(
            f"{made.file}: {made.file.stat().st_size / 1e6:.2f} MB, {len(made.needs)} operators, {style}, {level}"
        )


def _write_operators(needs: Operators, destination: Path) -> None:
    from edgepack.files.store import written_beside
    from edgepack.operators.config import format_config

    with written_beside(destination) as temporary:
        temporary.write_text(format_config(needs), encoding="utf-8")
