"""float32 weights of few levels."""

import zlib

import numpy as np
import pytest
from tests.support.berts import some_tokens
from tests.support.compare import Load, cosines, unexpected

from edgepack.errors import TargetError
from edgepack.models.graph.precision import precision_of
from edgepack_levels.float_levels import few_levels, float_levels

WIDE = {"hidden_size": 96, "intermediate_size": 384}


@pytest.mark.slow
def test_few_levels_pack_well_and_stay_near(load: Load) -> None:
    model = load(vocab_size=4000, **WIDE)
    fewer = float_levels(model, unexpected)
    assert precision_of(fewer) == "fp32"
    before, after = (len(zlib.compress(each.SerializeToString(), 9)) for each in (model, fewer))
    assert after < 0.4 * before
    assert abs(len(fewer.SerializeToString()) - len(model.SerializeToString())) < 1000
    assert cosines(model, fewer, some_tokens()).min() > 0.999


@pytest.mark.parametrize("levels", [4, 16, 256])
@pytest.mark.parametrize("axis", [0, 1])
def test_no_channel_has_more_levels_than_asked_for(levels: int, axis: int) -> None:
    values = np.random.default_rng(2).normal(size=(300, 300)).astype(np.float32)
    found = few_levels(values, levels, axis)
    channels = found if axis else found.T
    assert max(len(np.unique(each)) for each in channels) <= levels
    assert not (found.view(np.uint32) & 0x1FFF).any(), "the low bits are zero"
    steps = np.abs(values).max(axis=axis, keepdims=True) / (levels // 2 - 1) * 2
    assert (np.abs(found - values) <= 0.501 * steps).all()


def test_more_levels_are_nearer(load: Load) -> None:
    model, tokens = load(), some_tokens()
    near = [
        cosines(model, float_levels(model, unexpected, levels=levels), tokens).mean()
        for levels in (16, 64, 1024)
    ]
    assert near == sorted(near)


@pytest.mark.sample(2)
@pytest.mark.parametrize("levels", [0, 3, 5000])
def test_a_number_of_levels_that_makes_no_sense(load: Load, levels: int) -> None:
    with pytest.raises(TargetError, match=f"levels is {levels}"):
        float_levels(load(), unexpected, levels=levels)
