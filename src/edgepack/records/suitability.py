"""Whether a target takes a model, and what comes of it: told before anything is made."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A recipe that a target's bundles were measured with."""

    recipe: str
    archive: int
    """Bytes of the archive, foretold for the model that is asked about."""
    mean_cosine: float
    """Measured, as the next, of another model."""
    min_cosine: float


@dataclass(frozen=True, kw_only=True)
class Suitability:
    """A target beside one model."""

    target: str
    best_for: str
    """What the target is for, in words of its file."""
    device: str
    """System and processor, e.g. ``linux x86_64``."""
    taken: bool
    """Whether a bundle can be made of the model; the gate still judges its vectors."""
    reason: str = ""
    """Why not."""
    hint: str = ""
    """What to do instead."""
    warnings: tuple[str, ...] = ()
    """What the bundle will lack."""
    recipe: str = ""
    """The target's, for this model; empty: a list of passes."""
    archive: int | None = None
    """Bytes of the archive, by what the target makes of the model that it was measured with; ``None``: not known before."""
    memory: int | None = None
    """Bytes of the running program, likewise."""
    choices: tuple[Choice, ...] = ()
    """Recipes that the target was measured with, the smallest download first."""
    measured_with: str = ""
    """The model that these were measured with."""
