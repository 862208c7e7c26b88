"""What a search tries: every recipe, and int4 with int8 in the layers that int4 hurts most."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx

from edgepack.context import BuildContext
from edgepack.models.graph.editor import edit
from edgepack.quantization.layers import matrix_inputs
from edgepack.recipes.registry import RECIPE
from edgepack.records.recipe import ALL
from edgepack.records.target import Pass

LAYER = re.compile(r"^(.*?\d+)\.")
FUSED = Pass(name="fuse", parameters={"attention": "MultiHeadAttention", "embeddings": False})


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A recipe under the name that a table shows."""

    name: str
    recipe: str | tuple[Pass, ...]


def named_candidates(names: Sequence[str], context: BuildContext) -> list[Candidate]:
    """The recipes of these names; all of them, those of plugins too, where none is named."""
    return [Candidate(name=name, recipe=name) for name in names or context.extensions(RECIPE)]


def layers_of(model: onnx.ModelProto) -> list[str]:
    """Patterns that each take one layer's matrices, in the graph's order: by number in their names, or one by one."""
    found: dict[str, None] = {}
    for name in matrix_inputs(edit(model), ALL):
        match = LAYER.match(name)
        found[f"{match[1]}.*" if match else name] = None
    return list(found)


def sensitivity_probe(layer: str) -> Candidate:
    """int4 in one layer alone: how far that takes the vectors from full precision is the layer's sensitivity."""
    step = Pass(name="int4", parameters={"layers": [layer], "rounding": "nearest", "tables": "float"})
    return Candidate(name=f"int4 in {layer}", recipe=(FUSED, step))


def mixed_candidates(sensitivities: Mapping[str, float]) -> list[Candidate]:
    """int4 everywhere but in the most sensitive layer, in the two most sensitive, and so on."""
    ordered = sorted(sensitivities, key=lambda layer: -sensitivities[layer])
    return [
        Candidate(
            name=f"int4, int8 in {count} of {len(ordered)} layers",
            recipe=(
                FUSED,
                Pass(name="int4", parameters={"layers": sorted(ordered[count:])}),
                Pass(name="int8-weights"),
            ),
        )
        for count in range(1, len(ordered))
    ]
