"""Whether a target takes a model, and what comes of it: told before anything is made."""

from dataclasses import dataclass


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
