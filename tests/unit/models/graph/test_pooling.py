"""Ways of pooling, in the graph."""

import pytest

from edgepack.errors import UnsupportedModelError
from edgepack.models.graph.pooling import pool
from edgepack.models.graph.writer import GraphWriter
from edgepack.records.model import Pooling


def test_a_way_of_pooling_that_there_is_not_is_no_other() -> None:
    """It was that of the last token."""
    with pytest.raises(UnsupportedModelError, match="there is no pooling 'Mean'"):
        pool(GraphWriter(), "tokens", "mask", Pooling(mode="Mean"))  # type: ignore[arg-type]
