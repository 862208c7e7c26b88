"""Outputs of a model that a target, or a program, supports."""

from collections.abc import Collection
from dataclasses import replace

from edgepack.context import BuildContext
from edgepack.errors import UnsupportedModelError
from edgepack.records.model import ModelSource

WORDS = {"scores": "scores", "sparse": "sparse vectors", "tokens": "vectors or weights of tokens"}
HINT = "--target linux-x86-min gives all of them"


def require_outputs(source: ModelSource, outputs: Collection[str], who: str) -> None:
    """Raise ``UnsupportedModelError`` for a model that gives more than ``who`` does."""
    missing = [WORDS[name] for name in source.further_outputs if name not in outputs]
    if missing:
        raise UnsupportedModelError(
            f"{source.name} is {source.noun}, and {who} gives no {' and no '.join(missing)}", hint=HINT
        )


def with_supported_outputs(
    source: ModelSource, outputs: Collection[str] | None, target: str, *, context: BuildContext
) -> ModelSource:
    """The model as the target can give it, checked before anything is made; ``outputs`` ``None``: the builder does not say.

    A model with a vector for comparing texts gives that alone, where the target gives no more. Raises
    ``UnsupportedModelError``.
    """
    if outputs is None or set(source.further_outputs) <= set(outputs):
        return source
    if source.outputs is not None and source.outputs.dense:
        left = " and ".join(WORDS[name] for name in source.further_outputs)
        context.warn(f"target {target} gives one vector a text: {source.name} without its {left}")
        return replace(source, outputs=None)
    require_outputs(source, outputs, f"target {target}")
    return source
