"""Which of a model's nodes each execution provider can run.

For CPU, CUDA, TensorRT and WebGPU by the operators that they have kernels for (``kernels.toml``); for NNAPI and CoreML by the
partitions of upstream's own usability checker (``onnxruntime.tools.mobile_helpers``).
"""

from collections import Counter
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

import onnx

from edgepack.models.ort.shapes import with_shapes
from edgepack.toml_schema import load_toml

Form = Literal["fused", "as exported", "as exported, 1 text of 128 tokens"]
FIXED_BATCH = 1
FIXED_TOKENS = 128


@dataclass(frozen=True, kw_only=True)
class ProviderSupport:
    """Support of one execution provider for a model."""

    provider: str
    target: str
    """What edgepack builds with it."""
    form: Form
    """Which form of the graph was looked at."""
    nodes: int
    supported: int
    missing: tuple[str, ...]
    """Operators without a kernel, the most frequent first; their nodes run on the CPU, or nowhere."""
    partitions: int | None = None
    """Connected runs of supported nodes; ``None`` where they were not looked at."""

    @property
    def verdict(self) -> str:
        """In a few words."""
        if self.supported == self.nodes:
            return "all"
        if not self.supported:
            return "none"
        if self.partitions is not None and self.partitions > 2:
            return "many partitions: slower than the CPU alone"
        return "in part"


TABLES: tuple[tuple[str, str, str, Form], ...] = (
    ("cpu", "CPU", "reduced and full builds, WebAssembly", "fused"),
    ("cuda", "CUDA", "CUDA builds", "fused"),
    ("tensorrt", "TensorRT", "TensorRT builds", "as exported"),
    ("webgpu", "WebGPU", "browsers", "fused"),
)


def provider_support(model: onnx.ModelProto, fused: onnx.ModelProto) -> tuple[ProviderSupport, ...]:
    """How each execution provider gets on with a model; ``model`` is the graph as exported, ``fused`` after fusion."""
    tables = _kernels()
    forms = {"fused": fused, "as exported": model}
    by_table = [
        _by_table(tables[key], forms[form], provider=name, target=target, form=form)
        for key, name, target, form in TABLES
    ]
    return (*by_table, *_by_partitions(model))


def _kernels() -> Mapping[str, Mapping[str, list[str]]]:
    tables: Mapping[str, Mapping[str, list[str]]] = load_toml(files("edgepack.models.ort") / "kernels.toml")
    return tables


def _by_table(
    kernels: Mapping[str, list[str]], model: onnx.ModelProto, *, provider: str, target: str, form: Form
) -> ProviderSupport:
    missing: Counter[str] = Counter()
    for node in model.graph.node:
        domain = node.domain or "ai.onnx"
        if node.op_type not in kernels.get(domain, ()):
            missing[node.op_type if domain == "ai.onnx" else f"{domain}.{node.op_type}"] += 1
    nodes = len(model.graph.node)
    return ProviderSupport(
        provider=provider,
        target=target,
        form=form,
        nodes=nodes,
        supported=nodes - sum(missing.values()),
        missing=tuple(name for name, _ in missing.most_common()),
    )


def _by_partitions(model: onnx.ModelProto) -> list[ProviderSupport]:
    from onnxruntime.tools.mobile_helpers import usability_checker as checker

    fixed = _fixed(model)
    checks: list[tuple[str, str, Callable[[], Any]]] = [
        ("NNAPI", "Android", lambda: checker.check_nnapi_partitions(fixed, True)),
        (
            "CoreML NeuralNetwork",
            "iOS 13 and newer",
            lambda: checker.check_coreml_partitions(fixed, True, "coreml_supported_neuralnetwork_ops.md"),
        ),
        (
            "CoreML MLProgram",
            "iOS 15 and newer",
            lambda: checker.check_coreml_partitions(fixed, True, "coreml_supported_mlprogram_ops.md"),
        ),
    ]
    return [_partitioned(name, target, check()) for name, target, check in checks]


def _partitioned(name: str, target: str, found: Any) -> ProviderSupport:
    return ProviderSupport(
        provider=name,
        target=target,
        form="as exported, 1 text of 128 tokens",
        nodes=found.num_nodes,
        supported=found.num_supported_nodes,
        missing=tuple(sorted(name.removeprefix("ai.onnx:") for name in found.unsupported_ops)),
        partitions=found.num_partitions,
    )


def _fixed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model for one text of 128 tokens: these providers want sizes that are known when a session is made."""
    copy = deepcopy(model)
    for given in copy.graph.input:
        for dim, size in zip(given.type.tensor_type.shape.dim, (FIXED_BATCH, FIXED_TOKENS), strict=False):
            dim.dim_value = size
    return with_shapes(copy)
