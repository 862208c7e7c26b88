"""Our reading of a model is no one's word alone: sentence-transformers reads the same folders, and its vectors are the right ones."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
import torch
from onnx import helper
from sentence_transformers import CrossEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers.base.modules import Dense, Normalize
from sentence_transformers.sentence_transformer.modules import (
    CNN,
    LSTM,
    Dropout,
    LayerNorm,
    Pooling,
    WeightedLayerPooling,
)
from tests.support.checkpoints import WIDTH, change, with_tokenizer, write_encoder, write_head
from tests.support.families import FAMILIES, write_family
from tests.support.judges import save_modules
from tests.support.small_models import write_small_model
from tests.support.tiny import MODULES, write_json

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.find.source import ingest
from edgepack.models.graph.dense_activations import DENSE_ACTIVATIONS
from edgepack.models.graph.writer import OPSET, GraphWriter
from edgepack.models.ort.session import open_session
from edgepack.models.read import modules
from edgepack.models.reference import embed_with_onnxruntime, exported_model, reference_vectors
from edgepack.plugins.context import HostContext
from edgepack.records import layers
from edgepack.records.model import ModelSource
from edgepack.verifier.outputs.scores import reference_scores

TEXTS = (
    "hello world",
    "a",
    "small models hello",
    "",
    "Hello A SMALL world",
    "hello small " * 20,
    "model " * 9,
)
MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
Vectors = npt.NDArray[np.float32]


def judged(folder: Path, texts: Sequence[str] = TEXTS, **how: Any) -> Vectors:
    """What sentence-transformers makes of the texts, each alone."""
    vectors: Vectors = SentenceTransformer(str(folder), device="cpu").encode(list(texts), batch_size=1, **how)
    return vectors


def ours(folder: Path, context: HostContext, texts: Sequence[str] = TEXTS) -> Vectors:
    return reference_vectors(ingest(str(folder), context=context), texts, context=context)


def agree(folder: Path, context: HostContext, texts: Sequence[str] = TEXTS) -> None:
    """Each text alone, and all of them in one batch, padded."""
    exact = judged(folder, texts)
    source = ingest(str(folder), context=context)
    model = exported_model(source, context=context)
    for size in (1, len(texts)):
        found = embed_with_onnxruntime(model, source, texts, batch_size=size)
        np.testing.assert_allclose(found, exact, atol=1e-5 * max(1, np.abs(exact).max()), rtol=0)


def dense(inputs: int, outputs: int, **how: Any) -> Any:
    torch.manual_seed(inputs + outputs)
    return Dense(inputs, outputs, **how)


def in_the_old_form(folder: Path) -> None:
    """As sentence-transformers before 5 wrote the files: other class names, a flag for each pooling."""
    modules = json.loads((folder / "modules.json").read_text())
    for module in modules:
        module["type"] = f"sentence_transformers.models.{module['type'].rpartition('.')[2]}"
    write_json(folder / "modules.json", modules)
    file = folder / "1_Pooling" / "config.json"
    mode = json.loads(file.read_text())["pooling_mode"]
    keys = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens"}
    flags = {f"pooling_mode_{keys.get(each, each)}": each == mode for each in ("cls", "max", "mean", mode)}
    flags.pop("pooling_mode_weightedmean", None)
    extra = {"weightedmean": "weightedmean_tokens", "lasttoken": "lasttoken"}
    flags |= {f"pooling_mode_{extra[mode]}": True} if mode in extra else {}
    write_json(file, {"word_embedding_dimension": WIDTH, **flags})


@pytest.mark.sample(3)
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_every_pooling(tmp_path: Path, context: HostContext, mode: Any, normalize: bool) -> None:
    folder = save_modules(tmp_path / "model", Pooling(WIDTH, mode), *[Normalize()] * normalize)
    agree(folder, context)
    before = judged(folder)
    in_the_old_form(folder)
    np.testing.assert_array_equal(judged(folder), before, "the old form says the same")
    agree(folder, context)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", [torch.nn.Tanh(), None], ids=str)
def test_a_dense_module(tmp_path: Path, context: HostContext, activation: Any, bias: bool) -> None:
    layer = dense(WIDTH, 12, activation_function=activation, bias=bias)
    agree(save_modules(tmp_path / "model", Pooling(WIDTH, "cls"), layer), context)


def weighed(folder: Path, first: int, *, given: bool, **config: Any) -> Path:
    """Layers from ``first`` on with weights that were learnt, of a model that gives them or not."""
    weights = torch.nn.Parameter(torch.linspace(0.5, 2.0, 3 - first))
    save_modules(folder, WeightedLayerPooling(WIDTH, 2, first, weights), Pooling(WIDTH, "mean"))
    change(folder / "config.json", output_hidden_states=given, **config)
    return folder


@pytest.mark.sample(3)
@pytest.mark.parametrize(("first", "given"), [(0, True), (1, True), (2, True), (1, False)])
def test_weighed_layers(tmp_path: Path, context: HostContext, first: int, given: bool) -> None:
    folder = weighed(tmp_path / "model", first, given=given)
    agree(folder, context)
    plain = save_modules(tmp_path / "plain", Pooling(WIDTH, "mean"))
    assert np.allclose(judged(folder), judged(plain), atol=1e-5) == (not given or first == 2)


def test_weighed_layers_that_contradict_the_model(tmp_path: Path, context: HostContext) -> None:
    folder = weighed(tmp_path / "model", 1, given=True)
    change(folder / "1_WeightedLayerPooling" / "config.json", num_hidden_layers=4)
    with pytest.raises(UnsupportedModelError, match="requires WeightedLayerPooling"):
        exported_model(ingest(str(folder), context=context), context=context)
    change(folder / "1_WeightedLayerPooling" / "config.json", layer_start=5)
    with pytest.raises(ModelError, match="layer_start is 5, expected 0 to 4"):
        ingest(str(folder), context=context)


def test_every_activation(tmp_path: Path) -> None:
    """Of numbers on either side of each bend, by PyTorch and by the nodes that are written."""
    numbers = np.linspace(-30, 30, 1200, dtype=np.float32).reshape(3, -1)
    for name, kind in modules._ACTIVATIONS.items():
        writer = GraphWriter()
        DENSE_ACTIVATIONS[kind](writer, "", "x")
        writer.nodes[-1].output[0] = "y"
        made = run_nodes(writer, numbers)
        with torch.no_grad():
            of_torch = getattr(torch.nn, name)().eval()
            of_torch.dim = -1
            exact = of_torch(torch.tensor(numbers)).numpy()
        np.testing.assert_allclose(made, exact, atol=1e-5, rtol=1e-6, err_msg=name)
    assert set(modules._ACTIVATIONS.values()) == DENSE_ACTIVATIONS.keys()


def run_nodes(writer: GraphWriter, numbers: npt.NDArray[np.float32]) -> Any:
    """What nodes that take ``x`` and make ``y`` give."""
    sides = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["a", "b"]) for name in "xy")
    x, y = sides
    graph = helper.make_graph(writer.nodes, "g", [x], [y], list(writer.initializers.values()))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return open_session(model.SerializeToString()).run(None, {"x": numbers})[0]


@pytest.mark.parametrize(
    "behind",
    [
        [dense(WIDTH, 12, activation_function=torch.nn.GELU()), LayerNorm(12), Normalize()],
        [LayerNorm(WIDTH), Normalize(), dense(WIDTH, 12, activation_function=torch.nn.SiLU())],
        [Normalize(), dense(WIDTH, 8, use_residual=True), dense(8, 8, use_residual=True), Normalize()],
    ],
    ids=["norm", "normalized first", "residual"],
)
def test_modules_in_any_order(tmp_path: Path, context: HostContext, behind: list[Any]) -> None:
    for module in behind:
        for weight in module.parameters():
            torch.nn.init.normal_(weight, mean=0.2, std=0.5)
    agree(save_modules(tmp_path / "model", Pooling(WIDTH), *behind), context)


@pytest.mark.parametrize("behind", [[Normalize()], [dense(4 * WIDTH, 12)]], ids=["normalized", "dense"])
def test_several_poolings_side_by_side(tmp_path: Path, context: HostContext, behind: list[Any]) -> None:
    modes = ("weightedmean", "mean", "max", "mean_sqrt_len_tokens")
    folder = save_modules(tmp_path / "model", Pooling(WIDTH, modes), *behind)
    agree(folder, context)
    assert ingest(str(folder), context=context).pooling.modes == (
        "weighted-mean",
        "mean",
        "max",
        "mean-sqrt-len",
    )
    flags = ("mean_tokens", "lasttoken", "max_tokens", "cls_token")
    settings = {"word_embedding_dimension": WIDTH, **{f"pooling_mode_{flag}": True for flag in flags}}
    write_json(folder / "1_Pooling" / "config.json", settings)
    agree(folder, context)
    assert ingest(str(folder), context=context).pooling.modes == ("cls", "max", "mean", "last")


def test_several_dense_modules(tmp_path: Path, context: HostContext) -> None:
    """As EmbeddingGemma's; a Dropout does nothing to a trained model."""
    wider = dense(WIDTH, 80, activation_function=None, bias=False)
    back = dense(80, WIDTH, activation_function=None, bias=False)
    folder = save_modules(tmp_path / "model", Pooling(WIDTH), Dropout(0.5), wider, back, Normalize())
    agree(folder, context)
    source = ingest(str(folder), context=context)
    linear = [each for each in source.pooling.dense if isinstance(each, layers.Dense)]
    assert [(each.inputs, each.outputs) for each in linear] == [(WIDTH, 80), (80, WIDTH)]
    assert {"3_Dense/model.safetensors", "4_Dense/model.safetensors"} <= {file.path for file in source.files}


def test_dense_modules_of_another_model(tmp_path: Path, context: HostContext) -> None:
    folder = save_modules(tmp_path / "model", Pooling(WIDTH), dense(WIDTH, 12), Normalize())
    change(folder / "2_Dense" / "config.json", in_features=16)
    with pytest.raises(
        ModelError, match=r"2_Dense/config\.json takes vectors of 16 numbers, the model makes 32"
    ):
        ingest(str(folder), context=context)


@pytest.mark.sample(5)
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("cut", [5, WIDTH, 100])
def test_a_vector_that_is_cut(tmp_path: Path, context: HostContext, normalize: bool, cut: int) -> None:
    folder = save_modules(tmp_path / "model", Pooling(WIDTH), *[Normalize()] * normalize, truncate_dim=cut)
    agree(folder, context)
    source = ingest(str(folder), context=context)
    assert source.dimension == min(cut, WIDTH) == judged(folder).shape[1]


# transformers makes a Qwen2's tokenizer anew, whatever tokenizer_config.json says, and this one's words are not Qwen2's.
JUDGED = [kind for kind, family in FAMILIES.items() if kind != "qwen2" and not family.called]


@pytest.mark.sample(8)
@pytest.mark.parametrize("kind", JUDGED)
def test_every_architecture(tmp_path: Path, context: HostContext, kind: str) -> None:
    source, _ = write_family(tmp_path / "model", kind)
    folder = with_tokenizer(tmp_path / "model")
    write_json(folder / "modules.json", MODULES)
    write_json(
        folder / "1_Pooling" / "config.json",
        {"word_embedding_dimension": source.dimension, "pooling_mode": "mean"},
    )
    (folder / "2_Normalize").mkdir()
    agree(folder, context)


@pytest.mark.parametrize("kind", ["unigram", "byte-level"])
def test_other_tokenizers(tmp_path: Path, context: HostContext, kind: str) -> None:
    """``PreTrainedTokenizerFast`` takes tokenizer.json as it is; some other classes of transformers make parts of it anew."""
    (tmp_path / "model").mkdir()
    folder = write_small_model(tmp_path / "model", kind)
    (folder / "2_Normalize").mkdir()
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>"}
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 60, **special}
    write_json(folder / "tokenizer_config.json", named)
    agree(folder, context, (*TEXTS, "naïve café — 漢字 🍕", "  two  spaces ", "word " * 100))


@pytest.mark.sample(4)
@pytest.mark.parametrize("file", ["sentence_bert_config.json", "sentence_roberta_config.json"])
@pytest.mark.parametrize("longest", [3, 9, None])
def test_where_long_texts_are_cut(
    tmp_path: Path, context: HostContext, file: str, longest: int | None
) -> None:
    folder = save_modules(tmp_path / "model", Pooling(WIDTH), Normalize())
    (folder / "sentence_bert_config.json").unlink()
    if longest:
        write_json(folder / file, {"max_seq_length": longest, "do_lower_case": False})
    agree(folder, context)
    assert ingest(str(folder), context=context).max_length == (longest or 16)
    change(folder / "tokenizer_config.json", model_max_length=None)
    agree(folder, context)
    assert ingest(str(folder), context=context).max_length == (longest or 40), "the table of positions"


def test_texts_in_small_letters(tmp_path: Path, context: HostContext) -> None:
    folder = save_modules(tmp_path / "model", Pooling(WIDTH), Normalize())
    document = json.loads((folder / "tokenizer.json").read_text())
    document["normalizer"]["lowercase"] = False
    write_json(folder / "tokenizer.json", document)
    agree(folder, context)
    cased = judged(folder)
    (folder / "sentence_bert_config.json").unlink()
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 16, "do_lower_case": True})
    assert np.abs(judged(folder) - cased).max() > 0.01
    agree(folder, context)


PROMPTS = {"query": "small hello: ", "passage": "model: "}


def test_prompts(tmp_path: Path, context: HostContext) -> None:
    folder = save_modules(tmp_path / "model", Pooling(WIDTH), Normalize(), prompts=PROMPTS)
    agree(folder, context)
    source = ingest(str(folder), context=context)
    assert (source.prompts, source.default_prompt, source.warnings) == (PROMPTS, None, ())
    for purpose, prompt in PROMPTS.items():
        exact = judged(folder, prompt_name=purpose)
        np.testing.assert_allclose(ours(folder, context, [prompt + text for text in TEXTS]), exact, atol=1e-5)


def test_a_default_prompt_is_the_one_difference_and_is_said(tmp_path: Path, context: HostContext) -> None:
    folder = save_modules(
        tmp_path / "model", Pooling(WIDTH), Normalize(), prompts=PROMPTS, default_prompt_name="query"
    )
    plain, prompted = (
        ours(folder, context),
        ours(folder, context, [PROMPTS["query"] + text for text in TEXTS]),
    )
    np.testing.assert_allclose(prompted, judged(folder), atol=1e-5)
    np.testing.assert_allclose(plain, judged(folder, prompt=""), atol=1e-5)
    source = ingest(str(folder), context=context)
    assert source.default_prompt == "query"
    assert "before each text unasked, a bundle does not" in source.warnings[0]


def test_a_bare_encoder(tmp_path: Path, context: HostContext) -> None:
    """Both guess mean pooling; sentence-transformers leaves the length as it is, edgepack says that it guesses."""
    folder = write_encoder(tmp_path / "model")
    exact = judged(folder)
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    np.testing.assert_allclose(ours(folder, context), exact, atol=1e-5)
    assert "L2 normalisation are guesses" in ingest(str(folder), context=context).warnings[0]


@pytest.mark.parametrize(
    ("modules", "words"),
    [
        ([Pooling(WIDTH), dense(WIDTH, 8, activation_function=torch.nn.PReLU())], "activated by .*PReLU"),
        ([Pooling(WIDTH), dense(WIDTH, 8, module_output_name="other")], "the Dense module does not turn"),
        ([CNN(WIDTH), Pooling(WIDTH * 3)], "requires CNN"),
        ([LSTM(WIDTH, 8), Pooling(16)], "requires LSTM"),
        ([Pooling(WIDTH), WeightedLayerPooling(WIDTH, 2, 1)], "requires WeightedLayerPooling"),
        ([Normalize("token_embeddings"), Pooling(WIDTH)], "Transformer → Normalize → Pooling"),
        ([dense(WIDTH, 8, module_input_name="token_embeddings")], "Transformer → Dense"),
    ],
    ids=str,
)
def test_modules_that_are_refused(
    tmp_path: Path, context: HostContext, modules: list[Any], words: str
) -> None:
    with pytest.raises(UnsupportedModelError, match=words):
        ingest(str(save_modules(tmp_path / "model", *modules)), context=context)


@pytest.mark.parametrize(
    ("file", "fields", "words"),
    [
        (
            "sentence_bert_config.json",
            {"processing_kwargs": {"text": {"max_length": 4}}},
            "processing_kwargs",
        ),
        ("sentence_bert_config.json", {"module_output_name": "sentence_embedding"}, "module_output_name"),
        (
            "sentence_bert_config.json",
            {"modality_config": {"text": {"method": "forward", "method_output_name": "pooler_output"}}},
            "modality_config",
        ),
        ("sentence_bert_config.json", {"modality_config": ["text"]}, "modality_config"),
        ("sentence_bert_config.json", {"modality_config": {"text": "logits"}}, "modality_config"),
        ("tokenizer_config.json", {"truncation_side": "left"}, "truncation_side"),
    ],
)
def test_settings_that_are_refused(
    tmp_path: Path, context: HostContext, file: str, fields: dict[str, Any], words: str
) -> None:
    folder = save_modules(tmp_path / "model", Pooling(WIDTH), Normalize())
    ingest(str(folder), context=context)
    change(folder / file, **fields)
    with pytest.raises(UnsupportedModelError, match=words):
        ingest(str(folder), context=context)


def test_prompts_that_are_not_pooled_are_refused(tmp_path: Path, context: HostContext) -> None:
    pooling = Pooling(WIDTH, include_prompt=False)
    with pytest.raises(UnsupportedModelError, match="include_prompt"):
        ingest(str(save_modules(tmp_path / "model", pooling, prompts=PROMPTS)), context=context)
    agree(save_modules(tmp_path / "plain", Pooling(WIDTH, include_prompt=False)), context)


def test_what_its_sparse_encoders_save_is_read(tmp_path: Path, context: HostContext) -> None:
    head = write_head(tmp_path / "head", "BertForMaskedLM")
    encoder = SparseEncoder(str(head), device="cpu")
    encoder.save(str(tmp_path / "model"), create_model_card=False)
    exact = encoder.encode(list(TEXTS), batch_size=1, convert_to_sparse_tensor=False).numpy()
    np.testing.assert_allclose(ours(tmp_path / "model", context), exact, atol=1e-5)


@pytest.mark.parametrize("activation", [torch.nn.Sigmoid(), torch.nn.Identity()])
def test_its_cross_encoders_score_alike(tmp_path: Path, context: HostContext, activation: Any) -> None:
    head = write_head(tmp_path / "head", "BertForSequenceClassification", num_labels=1)
    # Without, transformers' plain fast tokenizer leaves the types out, which BERT's own gives.
    change(
        head / "tokenizer_config.json", model_input_names=["input_ids", "token_type_ids", "attention_mask"]
    )
    judge = CrossEncoder(str(head), device="cpu", activation_fn=activation)
    judge.save_pretrained(str(tmp_path / "model"), create_model_card=False)
    pairs = [("a small model", "hello"), ("world", "hello world models " * 9), ("", "a")]
    source = ingest(str(tmp_path / "model"), context=context)
    assert source.head and source.head.task == "rank"
    found = reference_scores(source, pairs, context=context)[:, 0]
    np.testing.assert_allclose(found, judge.predict(pairs), atol=1e-5)


def test_the_real_weights(minilm: ModelSource, shared_context: HostContext) -> None:
    exact = judged(minilm.directory)
    found = reference_vectors(minilm, TEXTS, context=shared_context)
    np.testing.assert_allclose(found, exact, atol=1e-5)
