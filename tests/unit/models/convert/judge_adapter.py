"""LoRA adapters: the merged weights are those of peft's ``merge_and_unload``."""

from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tests.support.berts import SHAPE
from tests.support.checkpoints import WIDTH, change, with_tokenizer, write_encoder
from tests.support.tiny import MODULES, write_json

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.models.find.source import ingest
from edgepack.models.judge import difference_from_judge
from edgepack.models.read.safetensors import open_tensors
from edgepack.plugins.context import HostContext

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")

ATTENTION = ["query", "value"]
FORMS: dict[str, dict[str, Any]] = {
    "linear": {"target_modules": ATTENTION},
    "rank and alpha by module": {
        "target_modules": [*ATTENTION, "dense"],
        "rank_pattern": {"query": 2},
        "alpha_pattern": {"layer.0.attention.self.value": 3},
    },
    "rank-stabilized": {"target_modules": ATTENTION, "use_rslora": True},
    "a table": {"target_modules": ["word_embeddings", "key"]},
    "whole modules": {"target_modules": ATTENTION, "modules_to_save": ["LayerNorm"]},
    "biases": {"target_modules": ATTENTION, "bias": "all"},
    "dora": {"target_modules": ATTENTION, "use_dora": True},
}


def adapter_of(base: Path, folder: Path, **how: Any) -> Any:
    """An adapter of random numbers, as peft saves it; the model with it."""
    torch.manual_seed(3)
    model: Any = peft.get_peft_model(
        transformers.AutoModel.from_pretrained(base), peft.LoraConfig(r=4, lora_alpha=7, **how)
    )
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.requires_grad and "magnitude" not in name:
                weight.add_(torch.randn(weight.shape) * 0.2)
    model.save_pretrained(folder)
    change(folder / "adapter_config.json", base_model_name_or_path=str(base))
    return model


@pytest.mark.parametrize("form", FORMS)
def test_the_merged_weights_are_those_of_peft(form: str, tmp_path: Path, context: HostContext) -> None:
    base = write_encoder(tmp_path / "base")
    model = adapter_of(base, tmp_path / "adapter", **FORMS[form])
    exact = model.merge_and_unload().state_dict()
    source = ingest(str(tmp_path / "adapter"), context=context)
    assert (source.name, source.dimension) == ("adapter", WIDTH)
    assert source.weights
    merged, before = open_tensors(source.weights), load_file(base / "model.safetensors")
    changed = 0
    for name, tensor in before.items():
        found = merged.read(name, tuple(tensor.shape))
        np.testing.assert_allclose(found, exact[name].numpy(), atol=1e-5, rtol=1e-5, err_msg=name)
        changed += not np.allclose(found, tensor.numpy())
    assert changed
    assert not (tmp_path / "adapter" / "model.safetensors").exists()


def test_what_sentence_transformers_reads(tmp_path: Path, context: HostContext) -> None:
    """The adapter's own modules and tokenizer come before its base model's."""
    base = write_encoder(tmp_path / "base")
    adapter_of(base, tmp_path / "adapter", target_modules=ATTENTION)
    folder = with_tokenizer(tmp_path / "adapter")
    write_json(folder / "modules.json", MODULES)
    write_json(folder / "1_Pooling/config.json", {"word_embedding_dimension": WIDTH, "pooling_mode": "max"})
    (folder / "2_Normalize").mkdir()
    assert difference_from_judge(folder, ["hello world", "a small"], context=context) < 1e-5
    assert ingest(str(folder), context=context).pooling.mode == "max"


def test_a_base_model_with_another_prefix(tmp_path: Path, context: HostContext) -> None:
    """Adapters of a model with a head name its parts after the head's class."""
    base = write_encoder(tmp_path / "base")
    adapter_of(base, tmp_path / "adapter", target_modules=ATTENTION)
    plain = ingest(str(tmp_path / "adapter"), context=context)
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    before = "base_model.model."
    renamed = {name.replace(before, f"{before}bert."): tensor for name, tensor in load_file(file).items()}
    save_file(renamed, file)
    again = ingest(str(tmp_path / "adapter"), context=context)
    assert again.weights
    assert plain.weights
    assert again.weights.read_bytes() == plain.weights.read_bytes()


def refused(folder: Path, context: HostContext) -> EdgepackError:
    with pytest.raises(EdgepackError) as caught:
        ingest(str(folder), context=context)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"peft_type": "IA3"}, "of the kind IA3"),
        ({"use_qalora": True}, "sets use_qalora"),
        ({"init_lora_weights": "pissa_niter_16"}, "trained from pissa_niter_16"),
        ({"base_model_name_or_path": "/nowhere/at all"}, "names the base model '/nowhere/at all'"),
        ({"base_model_name_or_path": None}, "names the base model None"),
        ({"fan_in_fan_out": True}, ""),
    ],
    ids=str,
)
def test_settings_that_are_refused(
    settings: dict[str, Any], words: str, tmp_path: Path, context: HostContext
) -> None:
    base = write_encoder(tmp_path / "base")
    adapter_of(base, tmp_path / "adapter", target_modules=["intermediate.dense"])
    change(tmp_path / "adapter" / "adapter_config.json", **settings)
    error = refused(tmp_path / "adapter", context)
    assert words in error.message
    assert isinstance(error, ModelError | UnsupportedModelError)


def test_an_adapter_of_another_model(tmp_path: Path, context: HostContext) -> None:
    base = write_encoder(tmp_path / "base")
    adapter_of(base, tmp_path / "adapter", target_modules=ATTENTION)
    other: Any = transformers.BertModel(transformers.BertConfig(**{**SHAPE, "num_hidden_layers": 1}))
    other.save_pretrained(base)
    error = refused(tmp_path / "adapter", context)
    assert "which model.safetensors of its base model does not have" in error.message
    (tmp_path / "adapter" / "adapter_model.safetensors").unlink()
    assert (
        "has adapter_config.json, and no adapter_model.safetensors"
        in refused(tmp_path / "adapter", context).message
    )
