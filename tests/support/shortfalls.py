"""What the gate finds wrong with a part of the figures."""

from collections.abc import Sequence

from edgepack.records.figures import EXACT, MAX_DIFFERENCE, figures_of
from edgepack.records.report import OutputFigures, Scores, Verification


def shortfalls_of(found: Scores | Sequence[OutputFigures], precision: str = "int8") -> list[str]:
    """In words; as of a bundle of this precision."""
    scores, outputs = (found, ()) if isinstance(found, Scores) else (None, tuple(found))
    whole = Verification(status="passed", texts=1, scores=scores, outputs=outputs)
    limits = {EXACT: MAX_DIFFERENCE} if precision == "fp32" else {}
    return [each.shortfall for each in figures_of(whole, limits) if each.shortfall]
