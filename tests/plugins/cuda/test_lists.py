"""The lists of translation units by operator."""

from __future__ import annotations

import pytest

from edgepack_cuda.kernels import plain_name
from edgepack_cuda.lists import Lists, known_versions, lists_for

LISTS = Lists(
    version="9",
    units=4,
    always=("fill",),
    operators={"Add": ("add",), "Gelu": ("gelu", "fast_gelu"), "Reshape": ()},
)
KERNELS = [("fill",), ("add", "sub"), ("fast_gelu (gelu.cu)",), ("flash",)]


def test_units_that_hold_a_kernel_of_an_operator() -> None:
    assert LISTS.units_for(["Add", "Reshape"], KERNELS) == {0, 1}
    assert LISTS.units_for(["Gelu"], KERNELS) == {0, 2}
    assert LISTS.units_for(LISTS.operators, KERNELS) == {0, 1, 2}


def test_operators_and_kernels_that_are_not_known() -> None:
    assert LISTS.unknown(["Add", "Conv"]) == ("Conv",)
    assert LISTS.absent(KERNELS) == ("gelu",)


def test_the_lists_that_there_are_can_be_read() -> None:
    assert known_versions() == ("1.31.1",)
    for version in known_versions():
        lists = lists_for(version)
        assert lists is not None
        assert lists.units > 0
        assert {"MatMul", "Attention", "SkipLayerNormalization", "EmbedLayerNormalization"} <= set(
            lists.operators
        )
    assert lists_for("1.0.0") is None


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_ZN11onnxruntime4cuda5_ClipImEEvPKT_PS2_S4_S4_S2_S2_m", "_Clip"),
        (
            "_ZN45_GLOBAL__N__e1928ab6_12_fpgeneric_cu_69b3876714CopyVectorHalfEPK6__halfiPS0_ii",
            "CopyVectorHalf (fpgeneric.cu)",
        ),
        ("_Z3moeIfEvv", "moe"),
        ("plain", "plain"),
        ("$__internal_0_$__cuda_sm20_div_s64", ""),
        ("_ZN3cub38CUB_300001_SM_750_800_860_890_900_12006detail11EmptyKernelIvEEvv", ""),
    ],
)
def test_names_of_kernels(mangled: str, name: str) -> None:
    assert plain_name(mangled) == name
