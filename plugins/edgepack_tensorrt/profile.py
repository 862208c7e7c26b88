"""The shapes that an engine is built for: from one text of one token to the runner's limits."""

from collections.abc import Iterable
from dataclasses import dataclass

from edgepack.api import Target, TargetError

USUAL_TOKENS = 64
"""Tokens that the kernels are chosen for: a sentence or two."""
MOST_TEXTS = 1024


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Smallest, usual and largest ``[batch, sequence]``; each input of an embedding model has this shape."""

    usual_texts: int
    most_texts: int
    usual_tokens: int
    most_tokens: int

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Shapes as TensorRT wants them: min, opt, max."""
        return (1, 1), (self.usual_texts, self.usual_tokens), (self.most_texts, self.most_tokens)

    def options(self, inputs: Iterable[str]) -> dict[str, str]:
        """Options of the execution provider that say it: ``nv_profile_min_shapes`` and so on."""
        names = list(inputs)
        return {
            f"nv_profile_{kind}_shapes": ",".join(f"{name}:{batch}x{length}" for name in names)
            for kind, (batch, length) in zip(("min", "opt", "max"), self.shapes, strict=True)
        }


def profile_for(target: Target, *, batch_size: int, max_batch: int, max_length: int) -> Profile:
    """The profile of a target's options for a model that takes texts of ``max_length`` tokens."""
    if not 1 <= batch_size <= max_batch <= MOST_TEXTS:
        raise TargetError(
            f"target {target.name}: batch_size {batch_size} and max_batch {max_batch} are not a valid profile",
            hint=f"1 <= batch_size <= max_batch <= {MOST_TEXTS}",
        )
    return Profile(
        usual_texts=batch_size,
        most_texts=max_batch,
        usual_tokens=min(USUAL_TOKENS, max_length),
        most_tokens=max_length,
    )
