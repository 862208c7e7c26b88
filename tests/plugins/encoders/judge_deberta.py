"""DeBERTa's buckets of distances against transformers'."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers.models.deberta_v2 import modeling_deberta_v2

from edgepack_encoders.deberta import buckets_of, read_distances


@pytest.mark.parametrize(("buckets", "farthest"), [(256, 512), (8, 40), (-1, 300)])
def test_buckets_of_distances_are_those_of_transformers(buckets: int, farthest: int) -> None:
    distances = np.arange(-1100, 1101)
    theirs: Any = modeling_deberta_v2
    placed = torch.tensor(distances)
    if buckets > 0:
        placed = theirs.make_log_bucket_position(placed, buckets, farthest).long()
    kinds = read_distances(
        {"relative_attention": True, "pos_att_type": ["c2p"]}
        | {"position_buckets": buckets, "max_relative_positions": farthest}
    )
    expected = torch.clamp(placed + kinds.span, 0, 2 * kinds.span - 1).numpy()
    np.testing.assert_array_equal(buckets_of(distances, kinds), expected)
