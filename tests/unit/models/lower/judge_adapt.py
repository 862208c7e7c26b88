"""What PyTorch's exporter makes of BERT, taken."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.berts import onnx_vectors, some_tokens, source_of, write_bert
from tests.support.installed import export_onnx
from tests.support.judges import torch_model, torch_vectors

from edgepack.records.model import ModelSource, Pooling


@pytest.fixture
def bert(tmp_path: Path) -> tuple[ModelSource, Any]:
    source, judged = write_bert(tmp_path / "model")
    return source, torch_model(judged)


def test_what_torch_itself_exports_is_taken(bert: tuple[ModelSource, Any]) -> None:
    source, model = bert

    class Encoder(torch.nn.Module):  # type: ignore[misc]  # of which mypy is told nothing
        def __init__(self) -> None:
            super().__init__()
            self.bert = model

        def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> Any:
            return self.bert(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state

    example = some_tokens(lengths=(6, 4))
    torch.onnx.export(
        Encoder().eval(),
        (torch.tensor(example.ids), torch.tensor(example.mask), torch.tensor(example.types)),
        str(source.directory / "torch.onnx"),
        input_names=["input_ids", "attention_mask", "token_type_ids"],
        output_names=["hidden"],
        dynamic_axes={
            name: {0: "b", 1: "s"} for name in ("input_ids", "attention_mask", "token_type_ids", "hidden")
        },
        opset_version=17,
        dynamo=False,
    )
    tokens = some_tokens()
    exported = export_onnx(source_of(source.directory, onnx="torch.onnx"), source.directory / "out.onnx")
    np.testing.assert_allclose(
        onnx_vectors(exported, tokens), torch_vectors(model, tokens, Pooling(), types=True), atol=1e-5
    )
    assert b"site-packages" not in exported.read_bytes(), "stack traces tell of their author's machine"
