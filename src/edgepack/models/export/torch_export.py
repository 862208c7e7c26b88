"""Architectures that edgepack does not write itself: through transformers and PyTorch's exporter, on the CPU, opset 17.

Needs ``edgepack[export]``. Code that comes with a model is never run (``trust_remote_code`` stays off).
"""

import inspect
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from edgepack.errors import MissingToolError, UnsupportedModelError
from edgepack.models.graph.writer import INPUTS, OPSET
from edgepack.models.read.architectures import INSTALL_PYTORCH, has_pytorch
from edgepack.records.model import ModelSource

TOKENS = "last_hidden_state"
LONGEST = 2048
"""Tokens of a text with which a graph is compared, where the model takes so many: some attentions (BigBird's) are others for long ones."""
LARGEST_DIFFERENCE = 1e-3
"""Between an element of a token's vector by PyTorch and by the exported graph; such vectors have length ten or so."""


def export_with_torch(source: ModelSource, destination: Path) -> Path:
    """Write a graph that gives one vector a token, float32 [batch, sequence, dimension], and check it against PyTorch.

    Raises ``MissingToolError`` without PyTorch, ``UnsupportedModelError`` for an architecture that transformers does not
    know, cannot trace, or that comes out otherwise than it went in.
    """
    if not has_pytorch():
        raise MissingToolError(
            f"{source.name} is a {source.config.get('model_type')!r}, which is exported with PyTorch, and that is not "
            "installed",
            hint=INSTALL_PYTORCH,
        )
    import torch

    with _quiet():
        model, found = _load(source)
        names = _inputs(model, source)
        try:
            _require_whole(model, found, names, source)
            with torch.no_grad():
                # Long before short: BigBird's attention becomes a whole one for good with the first short text.
                compared = [
                    _vectors(model, _batch(names, lengths=each))
                    for each in ((min(source.max_length, LONGEST),), (9, 2, 12))
                ]
                _trace(model, names, destination)
                difference = _difference(destination, compared)
        except UnsupportedModelError:
            raise
        except Exception as error:  # the tracer raises whatever the model's code does
            raise _refused(source, f"cannot be exported: {_first_line(error)}") from error
    if not difference <= LARGEST_DIFFERENCE:
        raise _refused(source, f"is exported wrongly by PyTorch: vectors differ by {difference:.2g}")
    return destination


def _load(source: ModelSource) -> tuple[Any, Mapping[str, Iterable[str]]]:
    """The model as a module whose forward takes tensors by position and gives token vectors; and what of its weights was not found, or
    had no place."""
    import torch
    from transformers import AutoModel, T5EncoderModel

    kind = T5EncoderModel if source.config.get("model_type") in ("t5", "mt5") else AutoModel
    try:
        loaded: Any = kind.from_pretrained(
            source.directory,
            output_loading_info=True,
            local_files_only=True,
            trust_remote_code=False,
            attn_implementation="eager",
            dtype=torch.float32,
        )
    except Exception as error:  # transformers raises what its configuration classes do
        family = source.config.get("model_type")
        raise _refused(
            source, f"cannot be loaded by transformers as {family}: {_first_line(error)}"
        ) from error

    inner, found = loaded

    class TokenVectors(torch.nn.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, *given: Any) -> Any:
            named = dict(zip(INPUTS, given, strict=False))
            return self.inner(**named, return_dict=True).last_hidden_state

    # Tracing leaves a module in the mode that it found the outermost one in.
    return TokenVectors().eval(), found


def _require_whole(
    model: Any, found: Mapping[str, Iterable[str]], names: list[str], source: ModelSource
) -> None:
    """Raise ``UnsupportedModelError`` for weights that are not those of the model that config.json describes."""
    if absent := _absent(model, found["missing_keys"], names):
        raise _refused(source, f"lacks {absent}: transformers fills it with numbers of chance")
    if beyond := _beyond(model.inner, found["unexpected_keys"]):
        raise _refused(source, f"has {beyond}, of a layer more than its config.json says")


def _absent(model: Any, missing: Iterable[str], names: list[str]) -> str | None:
    """A tensor that the weights lack and vectors depend on: those of a pooler do not, and tables of sines are not learnt."""
    import torch

    there = dict(model.inner.named_parameters())
    absent = [name for name in sorted(missing) if name in there and there[name].requires_grad]
    if not absent:
        return None
    total = model(*_batch(names, lengths=(9, 2)).values()).sum()
    used = torch.autograd.grad(total, [there[name] for name in absent], allow_unused=True)
    return next((name for name, slope in zip(absent, used, strict=True) if slope is not None), None)


def _beyond(inner: Any, names: Iterable[str]) -> str | None:
    """A tensor of the weights that is like one of the model's, of another layer."""
    alike = {re.sub(r"\d+", "0", name) for name, _ in inner.named_parameters()}
    own = f"{inner.base_model_prefix}."
    return next(
        (name for name in sorted(names) if re.sub(r"\d+", "0", name.removeprefix(own)) in alike), None
    )


def _inputs(model: Any, source: ModelSource) -> list[str]:
    """Token types only where the model has a table of several."""
    takes = inspect.signature(model.inner.forward).parameters
    types = source.config.get("type_vocab_size") or 0
    return [*INPUTS[:2], *[INPUTS[2]] * (INPUTS[2] in takes and isinstance(types, int) and types > 1)]


def _trace(model: Any, names: list[str], destination: Path) -> None:
    import torch

    given = _batch(names, lengths=(7, 4))
    torch.onnx.export(
        model,
        tuple(given[name] for name in names),
        str(destination),
        dynamo=False,
        opset_version=OPSET,
        input_names=names,
        output_names=[TOKENS],
        dynamic_axes={name: {0: "batch", 1: "sequence"} for name in (*names, TOKENS)},
    )


def _batch(names: list[str], *, lengths: tuple[int, ...]) -> dict[str, Any]:
    """Small token ids, which every vocabulary has, padded on the right."""
    import torch

    mask = torch.tensor([[int(at < length) for at in range(max(lengths))] for length in lengths])
    ids = (torch.arange(mask.numel()).reshape(mask.shape) % 5 + 5) * mask
    values = {INPUTS[0]: ids, INPUTS[1]: mask, INPUTS[2]: torch.zeros_like(mask)}
    return {name: values[name] for name in names}


def _vectors(model: Any, batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Inputs and the vectors of tokens that PyTorch makes of them, as arrays."""
    return {name: value.numpy() for name, value in batch.items()}, model(*batch.values()).numpy()


def _difference(file: Path, compared: Iterable[tuple[dict[str, Any], Any]]) -> float:
    """Between vectors of tokens by PyTorch and by the graph. Raises ``ValueError`` for a graph that sees no padding."""
    import numpy as np

    from edgepack.models.ort.session import open_session

    session, largest = open_session(file), 0.0
    read = [each.name for each in session.get_inputs()]
    if INPUTS[1] not in read:
        raise ValueError(f"its graph does not read {INPUTS[1]}")
    for batch, exact in compared:
        found = session.run([TOKENS], {name: batch[name] for name in read})[0]
        largest = max(largest, float(np.abs((found - exact) * batch[INPUTS[1]][..., None]).max()))
    return largest


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the bars and warnings of the libraries; the story on stderr is ours alone."""
    from transformers.utils import logging as theirs

    logging: Any = theirs
    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


def _refused(source: ModelSource, what: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"{source.name} {what}", hint="export the model to ONNX yourself and use the .onnx file"
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
