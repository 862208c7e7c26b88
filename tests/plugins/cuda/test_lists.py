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
    assert LISTS.units_for(["Add", "Reshape"], KERNELS, ["86"]) == {0, 1}
    assert LISTS.units_for(["Gelu"], KERNELS, ["86"]) == {0, 2}
    assert LISTS.units_for(LISTS.operators, KERNELS, ["86"]) == {0, 1, 2}


@pytest.mark.parametrize(
    ("architectures", "units"),
    [(["75"], {0, 2}), (["86"], {0, 3}), (["90"], {0, 3}), (["75", "89"], {0, 2, 3}), (["60"], {0, 1})],
)
def test_of_kernels_for_generations_the_one_that_a_device_takes(
    architectures: list[str], units: set[int]
) -> None:
    lists = Lists(version="9", units=4, always=("fill",), operators={"Attention": ("mha<Sm?>",)})
    kernels = [
        ("fill",),
        ("mha<Sm50>",),
        ("mha<Sm75>", "other"),
        ("mha<Sm80> (mha.cu)",),
        ("mha_padded<Sm80>",),
    ]
    assert lists.units_for(["Attention"], kernels, architectures) == units
    assert lists.absent(kernels) == ()
    assert lists.absent([("fill",), ("mha_padded<Sm80>",)]) == ("mha<Sm?>",)


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
        (
            "_Z29attention_kernel_batched_implI15AttentionKernelIN7cutlass6half_tENS1_4arch4Sm80ELb1EEEvv",
            "attention_kernel_batched_impl<Sm80>",
        ),
        ("plain", "plain"),
        ("$__internal_0_$__cuda_sm20_div_s64", ""),
        ("_ZN3cub38CUB_300001_SM_750_800_860_890_900_12006detail11EmptyKernelIvEEvv", ""),
    ],
)
def test_names_of_kernels(mangled: str, name: str) -> None:
    assert plain_name(mangled) == name
