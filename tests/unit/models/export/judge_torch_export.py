"""What PyTorch exports: architectures that edgepack does not write, and files that its two exporters have made."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import load_file, save_file
from tests.support.berts import onnx_vectors, source_of
from tests.support.families import tokens_of, write_family
from tests.support.installed import export_onnx
from tests.support.judges import torch_model, torch_vectors
from tests.support.quick import quick
from tests.support.tiny import tokenizer_document, write_json

from edgepack.errors import MissingToolError, ModelError, UnsupportedModelError
from edgepack.models.read import architectures
from edgepack.models.read.hub_layout import SAFETENSORS, choose_weights
from edgepack.plugins.context import HostContext
from edgepack.records.model import ModelSource, Pooling

SMALL: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
}
OTHERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "electra": ("ElectraConfig", "ElectraModel", {**SMALL, "embedding_size": 16}),
    "big_bird": (
        "BigBirdConfig",
        "BigBirdModel",
        {**SMALL, "max_position_embeddings": 200, "block_size": 8, "num_random_blocks": 1},
    ),
    "fnet": ("FNetConfig", "FNetModel", SMALL),
    "rembert": ("RemBertConfig", "RemBertModel", {**SMALL, "input_embedding_size": 16}),
}


def write_other(folder: Path, kind: str) -> tuple[ModelSource, Any]:
    config_class, model_class, shape = OTHERS[kind]
    torch.manual_seed(1)
    config = getattr(transformers, config_class)(**shape)
    config._attn_implementation = "eager"
    model: Any = getattr(transformers, model_class)(config).eval()
    model.save_pretrained(folder)
    write_json(folder / "tokenizer.json", tokenizer_document())
    return source_of(folder), model


@pytest.mark.parametrize("kind", ["electra", "rembert"])
def test_other_architectures_are_exported_by_torch(tmp_path: Path, kind: str) -> None:
    source, model = write_other(tmp_path / "model", kind)
    tokens = tokens_of("distilbert")
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), tokens)
    expected = torch_vectors(model, tokens, Pooling())
    np.testing.assert_allclose(vectors, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("mode", ["weighted-mean", "last"])
def test_pooling_by_place(tmp_path: Path, mode: Any) -> None:
    source, judged = write_family(tmp_path / "model", "bert", pooling=Pooling(mode=mode))
    model = torch_model(judged)
    tokens = tokens_of("bert")
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), tokens)
    with torch.no_grad():
        hidden = model(
            input_ids=torch.tensor(tokens.ids),
            attention_mask=torch.tensor(tokens.mask),
            token_type_ids=torch.tensor(tokens.types),
        ).last_hidden_state
    rows = []
    for row, length in enumerate(tokens.mask.sum(axis=1)):
        places = torch.arange(1, int(length) + 1, dtype=torch.float32)[:, None]
        text = hidden[row, : int(length)]
        rows.append((text * places).sum(0) / places.sum() if mode == "weighted-mean" else text[-1])
    expected = torch.nn.functional.normalize(torch.stack(rows), dim=1).numpy()
    np.testing.assert_allclose(vectors, expected, atol=1e-5, rtol=0)


def test_without_torch_the_hint_says_what_to_install(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, _ = write_other(tmp_path / "model", "electra")
    assert choose_weights([SAFETENSORS], source.config, "m", context=context) == SAFETENSORS
    monkeypatch.setattr(architectures, "find_spec", lambda name: None)
    with pytest.raises(MissingToolError, match="'electra'") as refused:
        export_onnx(source, tmp_path / "model.onnx")
    assert "edgepack[export]" in str(refused.value.hint)
    with pytest.raises(UnsupportedModelError, match="'electra'") as unknown:
        choose_weights([SAFETENSORS], source.config, "m", context=context)
    assert "edgepack[export]" in str(unknown.value.hint)


def test_what_is_another_graph_for_long_texts_or_sees_no_padding_is_refused(tmp_path: Path) -> None:
    """It was traced and compared with short texts only: BigBird's attention is whole up to 7 blocks of 8 tokens."""
    source, _ = write_other(tmp_path / "bird", "big_bird")
    with pytest.raises(UnsupportedModelError, match="exported wrongly by PyTorch"):
        export_onnx(replace(source, max_length=128), tmp_path / "bird.onnx")
    assert export_onnx(replace(source, max_length=48), tmp_path / "bird.onnx").exists()
    source, _ = write_other(tmp_path / "fnet", "fnet")
    with pytest.raises(UnsupportedModelError, match="cannot be exported"):
        export_onnx(source, tmp_path / "fnet.onnx")


def test_weights_that_are_not_all_there_or_more_than_config_says_are_refused(tmp_path: Path) -> None:
    """transformers draws what is not there: other vectors on each machine, of one embedder id."""
    source, _ = write_other(tmp_path / "model", "electra")
    file = source.directory / SAFETENSORS
    whole = load_file(file)
    one = "encoder.layer.1.attention.self.value.weight"
    for tensors, layers, words in (
        ({name: each for name, each in whole.items() if name != one}, 2, f"lacks {one}"),
        (whole, 3, r"lacks encoder\.layer\.2"),
        (whole, 1, r"has encoder\.layer\.1.*, of a layer more"),
    ):
        save_file(tensors, file, {"format": "pt"})
        config = {**source.config, "num_hidden_layers": layers}
        write_json(source.directory / "config.json", config)
        with pytest.raises(UnsupportedModelError, match=words):
            export_onnx(replace(source, config=config), tmp_path / "model.onnx")
    # No vector of a token reads a pooler, and no encoder a head.
    bert, _ = write_other(tmp_path / "other", "rembert")
    file = bert.directory / SAFETENSORS
    tensors = {name: each for name, each in load_file(file).items() if not name.startswith("pooler")}
    save_file({**tensors, "cls.predictions.bias": np.zeros(60, np.float32)}, file, {"format": "pt"})
    assert export_onnx(bert, tmp_path / "model.onnx").exists()


def test_more_layers_than_tensors_are_not_begun_with(tmp_path: Path) -> None:
    source, _ = write_other(tmp_path / "model", "electra")
    for key, said in (("num_hidden_layers", 10**7), ("num_layers", 10**5), ("block_sizes", [2, 10**6])):
        config = {**source.config, key: said}
        write_json(source.directory / "config.json", config)
        with pytest.raises(ModelError, match=rf"{key} is .*, and there are \d+ tensors"):
            export_onnx(replace(source, config=config), tmp_path / "model.onnx")


def test_an_architecture_that_transformers_does_not_know_runs_no_code_of_its_own(tmp_path: Path) -> None:
    source, _ = write_other(tmp_path / "model", "electra")
    config = {**source.config, "model_type": "mine", "auto_map": {"AutoModel": "evil.Model"}}
    write_json(source.directory / "config.json", config)
    (source.directory / "evil.py").write_text("raise SystemExit('code of the model was run')")
    with pytest.raises(UnsupportedModelError, match="cannot be loaded by transformers"):
        export_onnx(replace(source, config=config), tmp_path / "model.onnx")


@pytest.mark.slow
@pytest.mark.parametrize("kind", quick(["bert", "mpnet", "nomic_bert", "xlm-roberta"], "bert"))
@pytest.mark.parametrize("dynamo", [False, True], ids=["old", "dynamo"])
def test_files_of_both_exporters_of_torch_are_taken(tmp_path: Path, kind: str, dynamo: bool) -> None:
    source, judged = write_family(tmp_path / "model", kind)
    model = torch_model(judged)
    file = source.directory / "theirs.onnx"
    export_as_they_do(model, file, dynamo=dynamo)
    tokens = tokens_of(kind)
    exported = export_onnx(source_of(source.directory, onnx=file.name), tmp_path / "model.onnx")
    expected = torch_vectors(model, tokens, Pooling())
    np.testing.assert_allclose(onnx_vectors(exported, tokens), expected, atol=1e-5, rtol=0)
    assert str(tmp_path).encode() not in exported.read_bytes()


def export_as_they_do(model: Any, file: Path, *, dynamo: bool) -> None:
    class Encoder(torch.nn.Module):  # type: ignore[misc]  # of which mypy is told nothing
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
            return self.inner(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    tokens = tokens_of("bert", lengths=(6, 4))
    given = (torch.tensor(tokens.ids), torch.tensor(tokens.mask))
    names = ["input_ids", "attention_mask"]
    if dynamo:
        axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence", max=32)}
        program = torch.onnx.export(
            Encoder().eval(),
            given,
            input_names=names,
            output_names=["whatever"],
            dynamic_shapes=dict.fromkeys(names, axes),
            dynamo=True,
            verbose=False,
        )
        assert program is not None
        program.save(str(file))
        return
    torch.onnx.export(
        Encoder().eval(),
        given,
        str(file),
        input_names=names,
        output_names=["whatever"],
        dynamic_axes={name: {0: "b", 1: "s"} for name in (*names, "whatever")},
        opset_version=14,
        dynamo=False,
    )
