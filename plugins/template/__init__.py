"""Distributions to copy, one an axis: ``edgepack plugin new NAME --axis AXIS`` writes ``common/`` and the axis's, under its own name."""
