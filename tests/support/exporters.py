"""Files as today's exporters write them. ``python -m tests.support.exporters MODEL_FOLDER CLASS FILE HOW`` writes one.

``HOW`` is ``dynamo`` (torch.onnx as it is by default), ``dynamo23`` (opset 23, which needs the newest onnx) or ``script``
(the exporter of before).
"""

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

NAMES = ["input_ids", "attention_mask"]
OUTPUT = "last_hidden_state"


def export_as_today(model: Any, file: Path, how: str) -> None:
    """The encoder of a transformers model, with free sizes of batch and sequence."""

    class Encoder(torch.nn.Module):  # type: ignore[misc]  # of which mypy is told nothing
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
            return self.inner(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    mask = np.array([[1] * 6, [1] * 4 + [0] * 2])
    given = (torch.tensor(np.arange(12).reshape(2, 6) % 7 + 4) * torch.tensor(mask), torch.tensor(mask))
    if how == "script":
        # The tracer warns of every size that it takes for a constant.
        warnings.simplefilter("ignore")
        free = {name: {0: "batch", 1: "sequence"} for name in (*NAMES, OUTPUT)}
        torch.onnx.export(
            Encoder().eval(), given, str(file), input_names=NAMES, output_names=[OUTPUT], dynamic_axes=free,
            dynamo=False, opset_version=20,
        )  # fmt: skip
        return
    axes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    opset: dict[str, Any] = {"opset_version": 23} if how == "dynamo23" else {}
    program = torch.onnx.export(
        Encoder().eval(), given, input_names=NAMES, output_names=[OUTPUT], dynamo=True, verbose=False,
        dynamic_shapes=dict.fromkeys(NAMES, axes), **opset,
    )  # fmt: skip
    assert program is not None
    program.save(str(file))


def main(folder: str, kind: str, file: str, how: str) -> None:
    warnings.simplefilter("ignore")
    # As people load it: with whatever attention transformers prefers.
    model = getattr(transformers, kind).from_pretrained(folder).eval()
    export_as_today(model, Path(file), how)


if __name__ == "__main__":
    main(*sys.argv[1:])
