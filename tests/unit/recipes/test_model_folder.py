"""What ``quantize`` writes is a model again: every command takes it, or says why not."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from safetensors.numpy import save_file
from tests.support.berts import write_bert
from tests.support.command import edgepack
from tests.support.house import ROOT
from tests.support.tiny import WORDS, write_json

from edgepack.errors import ModelError, OutputError
from edgepack.models.find.source import ingest
from edgepack.models.inspection import inspect_model
from edgepack.models.reference import embed_with_onnxruntime, reference_vectors
from edgepack.plugins.context import HostContext
from edgepack.recipes import model_folder
from edgepack.recipes.model_files import quantize_model
from edgepack.recipes.model_folder import LISTING
from edgepack.recipes.prepare import prepare_model
from edgepack.records.model import ModelSource
from edgepack.records.target import ModelOptions, Pass

TEXTS = ("hello world", "a small model", "hello", "models models a " * 9)
PROMPTS = {"query": "ask: ", "passage": "text: "}
FILES = {
    *("README.md", "LICENSE.txt", "config.json", "modules.json", "1_Pooling/config.json", "tokenizer.json"),
    *("sentence_bert_config.json", "config_sentence_transformers.json", "tokenizer_config.json"),
    LISTING,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model whose every file says something of its own: cls, no normalisation, 12 tokens, prompts, a licence."""
    folder = tmp_path / "mine"
    write_bert(folder, hidden_act="gelu_new")
    write_layout(folder, "Transformer", "Pooling")
    write_json(folder / "1_Pooling/config.json", {"word_embedding_dimension": 32, "pooling_mode": "cls"})
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 12, "do_lower_case": True})
    write_json(folder / "tokenizer_config.json", {"model_max_length": 40, "pad_token": "[PAD]"})
    write_json(
        folder / "config_sentence_transformers.json", {"prompts": PROMPTS, "similarity_fn_name": "dot"}
    )
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# Mine\n")
    (folder / "LICENSE.txt").write_text("as you like it\n")
    return folder


def write_layout(folder: Path, *kinds: str) -> None:
    paths = ["", *(f"{at}_{kind}" for at, kind in enumerate(kinds) if at)]
    write_json(
        folder / "modules.json",
        [
            {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for at, (path, kind) in enumerate(zip(paths, kinds, strict=True))
        ],
    )


def quantized(
    folder: Path, to: Path, context: HostContext, recipe: str | tuple[Pass, ...] = "fp32", form: Any = "onnx"
) -> tuple[ModelSource, np.ndarray]:
    """The source, and the vectors of what is made of it."""
    source = ingest(str(folder), context=context)
    prepared, file = quantize_model(
        source, to, options=ModelOptions(recipe=recipe, format=form), context=context
    )
    assert file.parent == to and file.is_file()
    return source, embed_with_onnxruntime(file, prepared.source, TEXTS)


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("recipe", "precision"),
    [("fp32", "fp32"), ("fp16", "fp16"), ("int8", "int8"), ("float-levels", "rounded")],
)
def test_the_folder_is_the_model_again(
    folder: Path, tmp_path: Path, context: HostContext, recipe: str, precision: str
) -> None:
    source, vectors = quantized(folder, tmp_path / "small", context, recipe)
    assert names(tmp_path / "small") == FILES | {"model.onnx"}
    again = ingest(str(tmp_path / "small"), context=context)
    for same in ("dimension", "max_length", "prompts", "license", "pooling", "pooling_from"):
        assert getattr(again, same) == getattr(source, same), same
    assert again.precision == precision
    doubted = [each for each in again.warnings if each.startswith(f"quantized already ({precision})")]
    assert bool(doubted) == (precision in ("int8", "rounded"))
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).min() > 0.1, "of no particular length"
    np.testing.assert_allclose(reference_vectors(again, TEXTS, context=context), vectors, atol=1e-4)
    assert inspect_model(again, context=context).dimension == 32
    if precision in ("fp32", "fp16"):
        made = prepare_model(again, options=ModelOptions(recipe="int8", format="onnx"), context=context)
        weights = onnx.load(made.file).graph.initializer
        left = [each for each in weights if each.data_type == onnx.TensorProto.FLOAT and len(each.dims) == 2]
        assert all(1 in each.dims for each in left), "every matrix and table became int8"
    made = prepare_model(again, options=ModelOptions(recipe="fp32"), context=context)
    np.testing.assert_allclose(embed_with_onnxruntime(made.file, made.source, TEXTS), vectors, atol=1e-4)
    onnx.shape_inference.infer_shapes(onnx.load(tmp_path / "small/model.onnx"))
    card = (tmp_path / "small/README.md").read_text()
    assert card.startswith("---\nlicense: mit\n---\n# Mine\n") and "Made small by edgepack" in card


@pytest.mark.sample(1)
@pytest.mark.parametrize("recipe", ["fp32", "int8"])
def test_again_and_again(folder: Path, tmp_path: Path, context: HostContext, recipe: str) -> None:
    """Every time the graph is adapted, and what was added to it before is there already."""
    write_layout(folder, "Transformer", "Pooling", "Normalize")
    _, first = quantized(folder, tmp_path / "0", context, recipe)
    for at in range(3):
        again, vectors = quantized(tmp_path / str(at), tmp_path / str(at + 1), context, "fp32")
        np.testing.assert_allclose(vectors, first, atol=1e-5)
        assert inspect_model(again, context=context).dimension == 32


@pytest.mark.parametrize("form", ["ort", "ort-runtime-opt"])
def test_ort_format_is_refused_with_the_reason(
    folder: Path, tmp_path: Path, context: HostContext, form: str
) -> None:
    quantized(folder, tmp_path / "small", context, "int8", form)
    assert names(tmp_path / "small") == FILES | {"model.ort"}
    with pytest.raises(ModelError, match=r"small/model\.ort is in ORT format"):
        ingest(str(tmp_path / "small"), context=context)


def test_what_comes_after_the_pooling_is_not_done_again(
    folder: Path, tmp_path: Path, context: HostContext
) -> None:
    """A Dense module, normalisation, and a cut that leaves vectors shorter than 1."""
    write_layout(folder, "Transformer", "Pooling", "Dense", "Normalize")
    dense = {"in_features": 32, "out_features": 20, "bias": False}
    write_json(
        folder / "2_Dense/config.json", {**dense, "activation_function": "torch.nn.modules.activation.Tanh"}
    )
    weight = np.random.default_rng(2).normal(size=(20, 32)).astype(np.float32)
    save_file({"linear.weight": weight}, folder / "2_Dense/model.safetensors")
    write_json(folder / "config_sentence_transformers.json", {"prompts": PROMPTS, "truncate_dim": 7})
    _, vectors = quantized(folder, tmp_path / "small", context)
    assert vectors.shape == (4, 7)
    again = ingest(str(tmp_path / "small"), context=context)
    assert (again.dimension, again.pooling.dense, again.pooling.cut) == (7, (), None)
    np.testing.assert_allclose(reference_vectors(again, TEXTS, context=context), vectors, atol=1e-5)


def test_a_pruned_vocabulary_is_that_of_the_folder(
    folder: Path, tmp_path: Path, context: HostContext
) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("hello\n")
    steps = (Pass(name="prune-vocabulary", parameters={"corpus": str(corpus)}), Pass(name="fuse"))
    _, vectors = quantized(folder, tmp_path / "small", context, steps)
    assert names(tmp_path / "small") == (FILES | {"model.onnx"}) - {"tokenizer_config.json"}
    again = ingest(str(tmp_path / "small"), context=context)
    assert 5 < again.config["vocab_size"] < len(WORDS)
    assert again.precision == "fp32"
    np.testing.assert_allclose(reference_vectors(again, TEXTS, context=context), vectors, atol=1e-5)


def test_what_was_doubtful_stays_so(folder: Path, tmp_path: Path, context: HostContext) -> None:
    """The folder has a modules.json, the model that it was made from had none."""
    for name in ("modules.json", "1_Pooling/config.json", "README.md"):
        (folder / name).unlink()
    source, _ = quantized(folder, tmp_path / "small", context)
    assert any("guess" in each for each in source.warnings)
    assert ingest(str(tmp_path / "small"), context=context).warnings == source.warnings


@pytest.mark.parametrize(
    ("license", "again"), [("MIT", "MIT"), ("LicenseRef-llama3", "LicenseRef-llama3"), (None, None)]
)
def test_a_licence_that_only_the_catalogue_knows(
    folder: Path, tmp_path: Path, context: HostContext, license: str | None, again: str | None
) -> None:
    (folder / "README.md").unlink()
    source = replace(ingest(str(folder), context=context), license=license)
    options = ModelOptions(recipe="fp32", format="onnx")
    quantize_model(source, tmp_path / "small", options=options, context=context)
    assert ingest(str(tmp_path / "small"), context=context).license == again


def test_onnxruntime_and_tokenizers_alone_will_do(
    folder: Path, tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines that docs/recipes.md shows."""
    _, vectors = quantized(folder, tmp_path / "out", context)
    shown = (ROOT / "docs/recipes.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(import numpy.*?)```", shown, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {"texts": list(TEXTS)}
    exec(code, scope)
    np.testing.assert_allclose(scope["vectors"], vectors, atol=1e-5)


@pytest.mark.parametrize("content", [("notes.txt",), ("config.json", "model.safetensors")])
def test_a_folder_of_something_else_is_left_alone(
    folder: Path, tmp_path: Path, context: HostContext, content: Sequence[str]
) -> None:
    for name in content:
        write_json(tmp_path / "there" / name, {})
    with pytest.raises(OutputError, match="is not a model that edgepack made small, so it is not replaced"):
        quantized(folder, tmp_path / "there", context)
    assert names(tmp_path / "there") == set(content)
    assert not (context.store.root / "prepared").exists(), "said before any work"


def test_a_model_with_which_somebody_keeps_files_of_their_own_is_left_alone(
    folder: Path, tmp_path: Path, context: HostContext
) -> None:
    quantized(folder, tmp_path / "small", context)
    quantized(folder, tmp_path / "small", context)
    (tmp_path / "small/1_Pooling/notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"holds 1_Pooling/notes\.txt, which it was not made with"):
        quantized(folder, tmp_path / "small", context, form="ort")
    assert names(tmp_path / "small") == FILES | {"model.onnx", "1_Pooling/notes.txt"}


@pytest.mark.parametrize("name", ["README.md", "config.json", "tokenizer.json", "NOTICE-REVIEW.md"])
def test_a_file_that_its_user_has_written_or_changed_is_not_replaced(
    folder: Path, tmp_path: Path, context: HostContext, name: str
) -> None:
    """The card is what its publisher writes first; a file called as a licence may be a review of one."""
    quantized(folder, tmp_path / "small", context)
    with (tmp_path / "small" / name).open("a") as file:
        file.write("\n")
    before = (tmp_path / "small" / name).read_bytes()
    with pytest.raises(OutputError, match=f"holds {name}, which it was not made with"):
        quantized(folder, tmp_path / "small", context)
    assert (tmp_path / "small" / name).read_bytes() == before


@pytest.mark.parametrize("listing", [None, "[]", "[" * 100_000])
def test_a_folder_without_a_listing_is_its_users(
    folder: Path, tmp_path: Path, context: HostContext, listing: str | None
) -> None:
    quantized(folder, tmp_path / "small", context)
    (tmp_path / "small" / LISTING).unlink()
    if listing is not None:
        (tmp_path / "small" / LISTING).write_text(listing)
    with pytest.raises(OutputError, match="is not a model that edgepack made small"):
        quantized(folder, tmp_path / "small", context)


def test_the_current_folder_is_a_place_for_a_model(
    folder: Path, tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small").mkdir()
    monkeypatch.chdir(tmp_path / "small")
    source = ingest(str(folder), context=context)
    _, file = quantize_model(
        source, Path(), options=ModelOptions(recipe="fp32", format="onnx"), context=context
    )
    assert file == tmp_path / "small/model.onnx"
    assert names(tmp_path / "small") == FILES | {"model.onnx"}


def test_the_model_that_is_read_is_not_replaced(folder: Path, tmp_path: Path, context: HostContext) -> None:
    quantized(folder, tmp_path / "small", context)
    with pytest.raises(OutputError, match="holds the input model"):
        quantized(tmp_path / "small", tmp_path / "small", context)
    assert names(tmp_path / "small") == FILES | {"model.onnx"}


def test_half_a_folder_is_never_there(
    folder: Path, tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> str:
        raise RuntimeError("in the middle")

    with monkeypatch.context() as broken:
        broken.setattr(model_folder, "_card", fail)
        with pytest.raises(RuntimeError):
            quantized(folder, tmp_path / "out/small", context)
    assert list((tmp_path / "out").iterdir()) == []
    quantized(folder, tmp_path / "out/small", context, "int8", "ort")
    with monkeypatch.context() as broken:
        broken.setattr(model_folder, "_card", fail)
        with pytest.raises(RuntimeError):
            quantized(folder, tmp_path / "out/small", context)
    assert names(tmp_path / "out") == {f"small/{name}" for name in FILES | {"model.ort"}}, (
        "the earlier one stays"
    )
    quantized(folder, tmp_path / "out/small", context)
    assert names(tmp_path / "out/small") == FILES | {"model.onnx"}, "and is replaced as a whole"


@pytest.mark.tools("python")
@pytest.mark.slow
def test_commands_take_what_quantize_has_written(folder: Path, tmp_path: Path) -> None:
    environment = {"EDGEPACK_CACHE": str(tmp_path / "cache")}
    small = str(tmp_path / "small")

    def run(*words: str) -> Any:
        return edgepack(*words, env=environment)

    done = run("quantize", str(folder), "-r", "fp32", "-f", "onnx", "-o", small)
    assert done.returncode == 0, done.stderr
    for words in (("inspect", small), ("convert", small, "-o", str(tmp_path / "again.ort"))):
        done = run(*words)
        assert done.returncode == 0, done.stderr
    done = run("quantize", small, "-f", "onnx", "-o", str(tmp_path / "smaller"))
    assert done.returncode == 0, done.stderr
    done = run("search", "-t", "linux-x86-min", "-m", str(tmp_path / "smaller"))
    assert done.returncode != 0
    assert "smaller is quantized already (int8, " in done.stderr and "fault" not in done.stderr
