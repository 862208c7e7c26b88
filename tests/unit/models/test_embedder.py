"""The id by which an index knows its embedder: what changes it, and what does not."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from tests.support.tiny import tokenizer_document, write_json

from edgepack.files.store import digest_file
from edgepack.models.embedder import _of_source, embedder_id
from edgepack.models.reference import cached_reference
from edgepack.plugins.context import HostContext
from edgepack.records.layers import Dense, LayerNorm, Norm, WeighedLayers
from edgepack.records.model import FileDigest, Head, ModelSource, Pooling, PreparedModel
from edgepack.records.operators import Operator, Operators
from edgepack.records.outputs import MultiVector, Outputs, Side, Sparse, Vocabulary
from edgepack.records.runtime import ExecutionProvider, RuntimeArtifact
from edgepack.records.target import ModelOptions, Platform, Target
from edgepack.runner.freeze.sample_bundle import DIMENSION, sample_model, sample_tokenizer

TEXTS = ("a cat sat on the mat", "the kittens", "mat")
Id = Callable[..., str]


def operators(*names: str) -> Operators:
    return Operators(kernels=frozenset(Operator(domain="", since=1, name=name) for name in names))


@pytest.fixture
def source(tmp_path: Path) -> ModelSource:
    (tmp_path / "tokenizer.json").write_text(sample_tokenizer())
    graph = tmp_path / "model.onnx"
    graph.write_bytes(sample_model())
    (card := tmp_path / "README.md").write_text("# A model")
    return ModelSource(
        name="tiny",
        origin="folder tiny",
        directory=tmp_path,
        weights=None,
        onnx=graph,
        tokenizer=tmp_path / "tokenizer.json",
        config={"hidden_size": DIMENSION, "transformers_version": "4"},
        pooling=Pooling(),
        max_length=32,
        dimension=DIMENSION,
        files=tuple(digest_file(path, relative_to=tmp_path) for path in (graph, card)),
    )


@pytest.fixture
def identity(source: ModelSource, context: HostContext) -> Id:
    """``identity(noise=…, **parts)``: the id of a bundle whose golden vectors are so far from full precision."""
    exact = cached_reference(source, TEXTS, context=context)

    def make(*, noise: float = 0.0, passes: dict[str, str] | None = None, **parts: Any) -> str:
        found = parts.get("source", source)
        model = PreparedModel(
            file=Path("model.ort"),
            format=parts.get("format", "ort"),
            precision=parts.get("precision", "fp32"),
            recipe=parts.get("recipe", "pool, fuse"),
            needs=parts.get("needs", operators("MatMul")),
            source=parts.get("shipped", found),
            inputs=("input_ids",),
        )
        runtime = RuntimeArtifact(
            library=None,
            version=parts.get("version", "1.21.0"),
            kind="minimal",
            provides=None,
            toolchain="zig",
            provider=parts.get("provider"),
        )
        platform = Platform(os="linux", arch=parts.get("arch", "x86_64"), isa=parts.get("isa", ()))
        target = Target(
            name="t", summary="", builder="b", platform=platform, model=parts.get("options", ModelOptions())
        )
        vectors = exact + noise * np.roll(exact, 1, axis=1)
        shipped = parts.get("runtime", runtime)
        return embedder_id(
            found,
            model,
            shipped,
            target,
            (TEXTS, vectors.tolist()),
            passes=passes or {},
            exact=parts.get("exact", ""),
            context=context,
        )

    return make


ROUNDED = operators("MatMul", "DynamicQuantizeLinear")


def test_vectors_of_full_precision_have_one_id(identity: Id) -> None:
    plain = identity()
    assert len(plain) == 32 and set(plain) <= set("0123456789abcdef")
    for same in (
        {"recipe": "pool, fuse, fp16", "precision": "fp16", "noise": 0.001},
        {"recipe": "table, fp32"},
        {"version": "1.31.1"},
        {"arch": "aarch64", "format": "onnx"},
        {"runtime": None, "needs": None},
        {"isa": ("avx2",)},
        {"passes": {"stamp": "kiosk 1"}},
    ):
        assert identity(**same) == plain, same


def test_another_recipe_is_another_embedder_once_vectors_may_differ(identity: Id, tmp_path: Path) -> None:
    """Of a static model's int8 and of floats of few values, the golden texts had the same vectors, and rare words others."""
    texts = tmp_path / "texts.txt"
    texts.write_text("one text\n")
    far: dict[str, Any] = {"noise": 0.1}
    ids = [
        identity(),
        identity(precision="int8", recipe="table, int8"),
        identity(recipe="pool, fuse, float-levels(levels=2048)"),
        identity(**far),
        identity(**far, recipe="pool, int4"),
        identity(**far, isa=("avx2",)),
        identity(**far, passes={"stamp": "kiosk 1"}),
        identity(**far, options=ModelOptions(calibration=texts)),
    ]
    assert len(set(ids)) == len(ids)
    assert identity(**far, version="1.31.1", arch="aarch64") == identity(**far), "nothing is rounded"


def test_where_activations_are_rounded_release_and_processor_count(identity: Id) -> None:
    ids = [
        identity(),
        identity(needs=ROUNDED),
        identity(needs=ROUNDED, version="1.31.1"),
        identity(needs=ROUNDED, arch="aarch64"),
        identity(needs=None),
        identity(provider=ExecutionProvider(name="CUDAExecutionProvider", append="cuda")),
    ]
    assert len(set(ids)) == len(ids) - 1, "what is not known counts as rounded"
    ids = [identity(runtime=None, needs=None, exact=name) for name in ("", "engine 1", "engine 2")]
    assert len(set(ids)) == len(ids)
    assert identity(runtime=None, needs=None, exact="engine 1", arch="aarch64") == ids[1], (
        "one for all platforms"
    )
    ids = [identity()]
    assert identity(needs=operators("MatMulNBits", "DequantizeLinear")) == ids[0], "weights alone are"


def test_how_a_model_is_read_counts_and_its_card_does_not(
    identity: Id, source: ModelSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Digests of files that are not there.
    monkeypatch.setattr("edgepack.models.reference.digests_of", lambda source: {})
    digests = {file.path: file for file in source.files}
    others = [
        replace(source, pooling=Pooling(normalize=False)),
        replace(source, max_length=16),
        replace(source, prompts={"query": "query: "}),
        replace(source, config={"hidden_size": 9}),
        replace(source, files=(replace(digests["model.onnx"], sha256="other"),)),
    ]
    ids = [identity(), *(identity(source=each) for each in others)]
    assert len(set(ids)) == len(ids)
    card = replace(source, files=(digests["model.onnx"], replace(digests["README.md"], sha256="other")))
    newer = replace(source, config={**source.config, "transformers_version": "5"})
    assert identity(source=card) == identity(source=newer) == ids[0]


def test_another_tokenizer_is_another_embedder(identity: Id, source: ModelSource) -> None:
    before = identity()
    write_json(source.tokenizer, tokenizer_document(lowercase=False))
    assert identity() != before


def test_tokens_that_a_pass_took_away_count_whether_or_not_the_golden_vectors_moved(
    identity: Id, source: ModelSource, tmp_path: Path
) -> None:
    pruned = tmp_path / "pruned.json"
    write_json(pruned, tokenizer_document(lowercase=False))
    assert identity(shipped=replace(source, tokenizer=pruned)) != identity()


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids of models that cannot be run."""
    monkeypatch.setattr("edgepack.models.embedder.cached_reference", lambda *_, **__: np.zeros((1, 1)))


@pytest.mark.usefixtures("unmeasured")
def test_layers_that_change_places_are_another_embedder(identity: Id, source: ModelSource) -> None:
    def behind(*names: str, **digests: str) -> ModelSource:
        files = (
            FileDigest(path=f"{name}/model.safetensors", size=1, sha256=sha) for name, sha in digests.items()
        )
        dense = tuple(replace(DENSE, file=source.directory / name / "model.safetensors") for name in names)
        return replace(source, files=(*source.files, *files), pooling=Pooling(dense=dense))

    digests = {"a_Dense": "1", "b_Dense": "2"}
    ids = {
        identity(source=behind("a_Dense", "b_Dense", **digests)),
        identity(source=behind("b_Dense", "a_Dense", **digests)),
        # Files that a graph names, not layers.
        identity(source=behind(**digests)),
        identity(source=behind(a_Dense="2", b_Dense="1")),
    }
    assert len(ids) == 4
    assert identity(source=behind("a_Dense", a_Dense="1")) == identity(
        source=behind("b_Dense", b_Dense="1")
    ), "of one, there is nothing to mix up"


DENSE = Dense(file=Path(), inputs=DIMENSION, outputs=DIMENSION, bias=True, activation=None)
READ: Mapping[str, Any] = {
    "pooling": Pooling(
        layers=WeighedLayers(file=Path(), first=1, layers=2),
        dense=(
            LayerNorm(file=Path(), size=DIMENSION),
            replace(DENSE, norm=Norm(tensor="n", epsilon=0.1, bias=True)),
        ),
    ),
    "outputs": Outputs(
        sparse=Sparse(
            size=9,
            vocabulary=Vocabulary(transform=DENSE, matrix="m", bias="b", strategy="max", logs=1),
            weight=DENSE,
        ),
        multi_vector=MultiVector(dense=(DENSE,), dimension=4, query=Side(marker=1), document=Side(length=9)),
    ),
    "head": Head(task="rank", labels=("one",), activation="sigmoid", file=Path(), tensor="classifier"),
}
"""Records of how a model is read, with one of each kind that they hold."""


def variants(value: Any) -> Iterator[Any]:
    """The value with one thing in it changed, for each thing but a file's place."""
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            for other in variants(getattr(value, field.name)):
                yield replace(value, **{field.name: other})
    elif isinstance(value, tuple):
        yield (*value, 5)
        for at, each in enumerate(value):
            yield from ((*value[:at], other, *value[at + 1 :]) for other in variants(each))
    elif isinstance(value, bool):
        yield not value
    elif not isinstance(value, Path):
        yield 7 if value is None or isinstance(value, int | float) else f"{value} and more"


@pytest.mark.usefixtures("unmeasured")
def test_everything_in_a_record_of_how_a_model_is_read_counts(identity: Id, source: ModelSource) -> None:
    """Also what a ColBERT model's settings say of queries, or a sparse encoder's of its pooling, and what no record says yet."""
    others = [{name: record} for name, whole in READ.items() for record in (whole, *variants(whole))]
    ids = [identity(), *(identity(source=replace(source, **each)) for each in others)]
    assert len(ids) > 60
    assert len(set(ids)) == len(ids)


def test_every_field_of_a_model_counts_or_is_known_to_change_no_vector() -> None:
    """A new one wants to be looked at."""
    counted = {"weights", "onnx", "files", "config", "tokenizer", "pooling", "outputs", "head", "dimension", "max_length", "prompts", "module"}  # fmt: skip
    idle = {"name", "origin", "directory", "license", "matryoshka", "pooling_from", "default_prompt", "reading", "warnings", "precision", "graph_by", "graph_package"}  # fmt: skip
    assert {field.name for field in fields(ModelSource)} == counted | idle


def test_weights_beside_a_graph_count_whatever_they_are_called(source: ModelSource) -> None:
    ids = []
    for number in (1.0, 2.0):
        model = onnx.load_from_string(sample_model())
        for tensor in model.graph.initializer:
            if tensor.data_type == onnx.TensorProto.FLOAT:
                values = onnx.numpy_helper.to_array(tensor) * number
                tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
        assert source.onnx is not None
        (source.directory / "weights.txt").unlink(missing_ok=True)
        onnx.save(model, source.onnx, save_as_external_data=True, location="weights.txt", size_threshold=0)
        used = (source.onnx, source.directory / "weights.txt")
        files = tuple(digest_file(path, relative_to=source.directory) for path in used)
        ids.append(_of_source(replace(source, files=files), source))
    assert ids[0] != ids[1]
