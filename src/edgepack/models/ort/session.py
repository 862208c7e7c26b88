"""Opening sessions of the stock ONNX Runtime, with its refusals as errors for people."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.ort.memory import limited_memory, memory_for
from edgepack.models.ort.processor_time import Allowance, model_bytes, tokens_in

if TYPE_CHECKING:
    import onnxruntime

# Of the device-dependent rewrites only this one changes the graph's layout; a file made with it runs on amd64 alone.
DISABLED_OPTIMIZERS = ("NchwcTransformer",)
SILENT = 4


def session_options() -> onnxruntime.SessionOptions:
    """Options of every session here: nothing on stderr but what becomes an error of ours."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = SILENT
    return options


def open_session(
    model: Path | bytes,
    options: onnxruntime.SessionOptions | None = None,
    *,
    name: str | None = None,
    disabled: Sequence[str] = DISABLED_OPTIMIZERS,
) -> onnxruntime.InferenceSession:
    """A session on the CPU provider; errors call the model ``name``, or as its file is called.

    ``disabled`` are the optimizers of ONNX Runtime that leave the graph alone.

    Raises ``UnsupportedModelError`` when no kernel implements one of the model's operators, ``ModelError`` when the
    file is no model, is damaged, or needs more memory than there is.
    """
    called = name or ("the model" if isinstance(model, bytes) else model.name)
    try:
        limit, allowance = memory_for(), Allowance(model_bytes(model))
        with limited_memory(called, limit, allowance):
            return _session_class()(
                called,
                limit,
                allowance,
                model if isinstance(model, bytes) else str(model),
                options or session_options(),
                providers=["CPUExecutionProvider"],
                disabled_optimizers=list(disabled),
            )
    except Exception as error:  # the binding raises a class of its own for each status
        if not type(error).__module__.startswith("onnxruntime"):
            raise
        raise _refusal(called, error) from error


@cache
def _session_class() -> type[onnxruntime.InferenceSession]:
    """Sessions that let this process have no more than so much memory and time when they run."""
    import onnxruntime

    class LimitedSession(onnxruntime.InferenceSession):  # type: ignore[misc]  # untyped
        def __init__(self, called: str, limit: int, allowance: Allowance, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self._called, self._limit, self._allowance = called, limit, allowance

        def run(self, names: Any, feed: Mapping[str, Any], *given: Any, **named: Any) -> list[Any]:
            self._allowance.for_tokens(tokens_in(feed))
            with limited_memory(self._called, self._limit, self._allowance):
                values: list[Any] = super().run(names, feed, *given, **named)
                return values

    return LimitedSession


LONGEST = 4000
"""Letters of a refusal that are read: names of a stranger's graph are in it."""


def _refusal(name: str, error: Exception) -> ModelError | UnsupportedModelError:
    text = str(error)[:LONGEST]
    if (operator := _missing_operator(text)) is not None:
        return UnsupportedModelError(
            f"{name} uses operator {operator}, for which ONNX Runtime has no kernel",
            hint="export the model without it, or with another opset",
        )
    if opset := re.search(r"Opset (\d+) is under development.*till opset (\d+)", text, re.DOTALL):
        return UnsupportedModelError(
            f"{name} is of opset {opset[1]}, ONNX Runtime takes opsets up to {opset[2]}",
            hint="export it with an older opset, or take a newer release: edgepack runtime versions lists them",
        )
    reason = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text.strip().splitlines()[-1])
    return ModelError(
        f"{name} is not a model that ONNX Runtime can load: {reason}",
        hint="the file is damaged, or was made by a newer exporter",
    )


def _missing_operator(text: str) -> str | None:
    for pattern in (
        r"Could not find an implementation for ([\w.:]+\(\d+\))",
        r"No Op registered for (\w+) with domain_version of",
        r"([\w.:]+\(-?\d+\)) is not a registered function/op",
    ):
        if found := re.search(pattern, text):
            return found[1]
    return None
