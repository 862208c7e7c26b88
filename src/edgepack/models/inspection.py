"""What a model is made of, and which recipe fits it: ``edgepack inspect MODEL``."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import onnx
from onnx import TensorProto

from edgepack.context import BuildContext
from edgepack.models.fuse.fusion import fuse, fused_operators
from edgepack.models.graph.external_weights import load_graph
from edgepack.models.graph.precision import parameters_of, precision_of, quantized_by
from edgepack.models.graph.sample_inputs import lookups
from edgepack.models.ort.providers import ProviderSupport, provider_support
from edgepack.models.ort.releases import ReleaseSupport, release_support
from edgepack.models.ort.shapes import with_shapes
from edgepack.models.read.static import is_static_source
from edgepack.models.reference import exported_model
from edgepack.records.model import FileDigest, ModelSource, Pooling, PoolingOrigin
from edgepack.records.suitability import Suitability

SCHEMA = 2
LONG_TEXTS = 1024
TABLE_TARGETS = ("linux-x86-static", "linux-arm64-static")
EMBEDDINGS, MATRICES, OTHERS = "embeddings", "matrices", "norms and biases"


@dataclass(frozen=True, kw_only=True)
class ParameterGroup:
    """One kind of weights."""

    name: str
    parameters: int


@dataclass(frozen=True, kw_only=True)
class OperatorCount:
    """How often a graph uses an operator."""

    domain: str
    name: str
    count: int
    types: tuple[str, ...] = ()
    """Element types of what its nodes make, as far as the graph tells, e.g. ``("float",)``."""


@dataclass(frozen=True, kw_only=True)
class GraphInput:
    """An input; a size that is free is a name."""

    name: str
    shape: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ModelInspection:
    """Facts about a model before any recipe changes it."""

    name: str
    origin: str
    license: str | None
    architecture: str
    dimension: int
    max_length: int
    pooling: Pooling
    opset: int
    inputs: tuple[GraphInput, ...]
    dynamic: bool
    """Whether any batch size and any number of tokens can be run."""
    parts: tuple[ParameterGroup, ...]
    operators: tuple[OperatorCount, ...]
    """Of the exported graph, the most frequent first."""
    fused_operators: tuple[OperatorCount, ...]
    """Of the same graph after fusion."""
    providers: tuple[ProviderSupport, ...]
    """Nodes that each execution provider can run."""
    releases: tuple[ReleaseSupport, ...]
    """Known releases of ONNX Runtime, the newest last; of an ONNX file, whether they run it as it came."""
    files: tuple[FileDigest, ...]
    recipe: str
    """The recommended recipe."""
    reason: str
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    matryoshka: tuple[int, ...] = ()
    pooling_from: PoolingOrigin = "modules.json"
    warnings: tuple[str, ...] = ()
    """Properties that were guessed, or set against the model's files."""
    hindrances: tuple[str, ...] = ()
    """Reasons why the model is larger or slower than others, in words."""
    targets: tuple[Suitability, ...] = ()
    """Each target that is installed: whether it takes the model by its own recipe, and why not."""
    recommended: Suitability | None = None
    """The target and recipe that `edgepack bundle` takes without ``--target``, on this machine; ``None``: none takes the model."""

    @property
    def parameters(self) -> int:
        return sum(part.parameters for part in self.parts)


def inspect_model(source: ModelSource, *, context: BuildContext) -> ModelInspection:
    """Export a model and look at its graph, as it is and fused.

    Raises ``ModelError`` and ``UnsupportedModelError`` as ``export_onnx`` does.
    """
    model = load_graph(exported_model(source, context=context))
    static = is_static_source(source)
    notes: list[str] = []
    fused = fuse(model, notes.append)
    if not static and not notes and not {"Attention", "MultiHeadAttention"} & fused_operators(fused).keys():
        notes.append("its attention is not of a shape that can be fused: more operators, slower")
    parts = _parts(model)
    recipe, reason = _recommend_for_table(source, parts) if static else _recommend(model, parts)
    return ModelInspection(
        name=source.name,
        origin=source.origin,
        license=source.license,
        architecture=_architecture(source),
        dimension=source.dimension,
        max_length=source.max_length,
        pooling=source.pooling,
        opset=next(each.version for each in model.opset_import if each.domain in ("", "ai.onnx")),
        inputs=_inputs(model),
        dynamic=all(not size.isdigit() for each in _inputs(model) for size in each.shape),
        parts=parts,
        operators=_operators(model),
        fused_operators=_operators(fused),
        providers=provider_support(model, fused),
        releases=release_support(_as_it_came(source, model)),
        files=source.files,
        prompts=source.prompts,
        default_prompt=source.default_prompt,
        matryoshka=source.matryoshka,
        pooling_from=source.pooling_from,
        warnings=source.warnings,
        recipe=recipe,
        reason=reason,
        hindrances=() if static else (*notes, *_hindrances(source, parts)),
    )


def _as_it_came(source: ModelSource, exported: onnx.ModelProto) -> onnx.ModelProto:
    """The user's own graph, where there is one."""
    return exported if source.onnx is None else onnx.load(str(source.onnx), load_external_data=False)


def as_dict(inspection: ModelInspection) -> dict[str, Any]:
    """The inspection as plain data (schema 2)."""
    plain = {"schema": SCHEMA, **asdict(inspection), "parameters": inspection.parameters}
    for layer, of in zip(plain["pooling"]["dense"], inspection.pooling.dense, strict=True):
        layer["kind"] = type(of).__name__
    for module in (*plain["pooling"]["dense"], plain["pooling"]["layers"] or {}):
        if "file" in module:
            module["file"] = f"{module['file'].parent.name}/{module['file'].name}"
    return plain


def _architecture(source: ModelSource) -> str:
    named: Sequence[str] = source.config.get("architectures") or ()
    return named[0] if named else str(source.config.get("model_type") or "an ONNX graph")


def _inputs(model: onnx.ModelProto) -> tuple[GraphInput, ...]:
    return tuple(
        GraphInput(
            name=each.name,
            shape=tuple(dim.dim_param or str(dim.dim_value) for dim in each.type.tensor_type.shape.dim),
        )
        for each in model.graph.input
    )


def _hindrances(source: ModelSource, parts: Sequence[ParameterGroup]) -> list[str]:
    """Properties that make the model larger or slower than others of its kind."""
    sizes = {part.name: part.parameters for part in parts}
    found = []
    if sizes[EMBEDDINGS] > sizes[MATRICES]:
        share = sizes[EMBEDDINGS] / max(sum(sizes.values()), 1)
        found.append(
            f"{share:.0%} of the parameters are in embedding tables; int4 or prune-vocabulary shrinks them"
        )
    if source.max_length > LONG_TEXTS:
        found.append(
            f"long texts ({source.max_length} tokens): memory of attention grows with the square of the length; "
            "on small devices, truncate texts earlier"
        )
    return found


def _types(model: onnx.ModelProto) -> Mapping[str, str]:
    """Value → element type, as far as ONNX's own inference can tell; it knows ONNX's own operators only."""
    if any(node.domain not in ("", "ai.onnx") for node in model.graph.node):
        return {}
    inferred = with_shapes(model)
    values = (*inferred.graph.value_info, *inferred.graph.output)
    kinds = {each.name: each.type.tensor_type.elem_type for each in values}
    return {name: TensorProto.DataType.Name(kind).lower() for name, kind in kinds.items() if kind}


def _operators(model: onnx.ModelProto) -> tuple[OperatorCount, ...]:
    counts = Counter((node.domain or "ai.onnx", node.op_type) for node in model.graph.node)
    known = _types(model)
    types: dict[tuple[str, str], set[str]] = {}
    for node in model.graph.node:
        made = {known[value] for value in node.output if value in known}
        types.setdefault((node.domain or "ai.onnx", node.op_type), set()).update(made)
    return tuple(
        OperatorCount(domain=domain, name=name, count=count, types=tuple(sorted(types[domain, name])))
        for (domain, name), count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )


def _parts(model: onnx.ModelProto) -> tuple[ParameterGroup, ...]:
    """Weights by what they are used for."""
    tables = {table for table, _ in lookups(model)}
    sizes = Counter({EMBEDDINGS: 0, MATRICES: 0, OTHERS: 0})
    axes = {tensor.name: len(tensor.dims) for tensor in model.graph.initializer}
    for name, count in parameters_of(model).items():
        matrix = EMBEDDINGS if name in tables else MATRICES
        sizes[matrix if axes[name] > 1 else OTHERS] += count
    return tuple(ParameterGroup(name=name, parameters=count) for name, count in sizes.items())


def _recommend_for_table(source: ModelSource, parts: Sequence[ParameterGroup]) -> tuple[str, str]:
    """Recommendation for a static model: the form of its table's numbers, and the targets that ship a table."""
    form, size = ("int8", 1) if source.precision == "int8" else ("fp16", 2)
    total = sum(part.parameters for part in parts)
    return form, (
        f"a table of {size * total / 1e6:.1f} MB: a static model, with one vector per token and no transformer. "
        "Targets for static embeddings ship the table; others export it as a graph, with recipes for graphs"
    )


def _recommend(model: onnx.ModelProto, parts: Sequence[ParameterGroup]) -> tuple[str, str]:
    """A recipe, and why."""
    if found := quantized_by(model):
        return "fp32", (
            f"the model is already quantized ({precision_of(model)}, {found}); no recipe is applied"
        )
    sizes = {part.name: part.parameters for part in parts}
    quantized = sizes[EMBEDDINGS] + sizes[MATRICES]
    total = sum(sizes.values())
    before, after = 4 * total, quantized + 4 * (total - quantized)
    return "int8", (
        f"about {after / 1e6:.1f} MB instead of {before / 1e6:.1f}: "
        f"{quantized / max(total, 1):.1%} of the parameters are in matrices and tables, which become int8"
    )
