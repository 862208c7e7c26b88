"""The lists of translation units by operator."""

import tomllib
from pathlib import Path

import onnx
import pytest
from bin import cuda_lists as module
from tests.support.berts import source_of
from tests.support.cuda_libraries import library
from tests.support.families import FAMILIES, write_family
from tests.support.quick import quick

from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack.recipes.prepare import prepare_model
from edgepack_cuda.kernels import plain_name
from edgepack_cuda.lists import Lists, known_versions, lists_for

pytestmark = pytest.mark.tools("gcc")

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


NORMS = {"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"}
"""What a fused graph has, and one that is not fused has not; the second in families with RMS norms."""


@pytest.mark.sample(1)
@pytest.mark.parametrize("recipe", quick(["fp16", "fp32"], "fp16"))
@pytest.mark.parametrize("kind", sorted(FAMILIES))
def test_the_lists_know_all_operators_of_each_family(
    kind: str, recipe: str, context: HostContext, tmp_path: Path
) -> None:
    """Every architecture that edgepack exports itself, fused as the target fuses it."""
    write_family(tmp_path / kind, kind)
    target = load_plugins().target("linux-x64-cuda", [f"model.recipe={recipe}"])
    model = prepare_model(
        source_of(tmp_path / kind), options=target.model, platform=target.platform, context=context
    )
    operators = {node.op_type for node in onnx.load(str(model.file)).graph.node}
    assert {"MatMul"} <= operators and operators & NORMS, f"it is fused: {sorted(operators)}"
    for version in known_versions():
        lists = lists_for(version)
        assert lists is not None
        assert lists.unknown(operators) == ()


@pytest.mark.parametrize(
    ("version", "known", "expected"),
    [
        ("1.31.1", ("1.30.0", "1.31.1"), "1.31.1"),
        ("1.31.2", ("1.30.0", "1.31.1", "1.32.0"), "1.31.1"),
        ("1.9.0", ("1.10.0", "1.31.1"), "1.10.0"),
        ("1.0", (), ""),
    ],
)
def test_the_lists_that_another_version_begins_with(
    version: str, known: tuple[str, ...], expected: str
) -> None:
    assert module.nearest(version, known) == expected


def test_lists_for_another_version_are_drafted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They can be read again, and say which kernels are gone and which are nobody's."""
    lists = Lists(
        version="8",
        units=7,
        always=("CopyVectorHalf",),
        operators={"Add": ("_BinaryElementWise",), "Gelu": ("gelu", "fill"), "Reshape": ()},
    )
    monkeypatch.setattr(module, "known_versions", lambda: ("8",))
    monkeypatch.setattr(module, "lists_for", {"8": lists}.get)
    text = module.draft(library(tmp_path).read_bytes(), "it", "9")
    assert "Drafted from the lists for 8; gone is what it has no longer: gelu." in text
    assert 'Gelu = ["fill"]  # gone: gelu\n' in text
    assert tomllib.loads(text) == {
        "units": 4,
        "always": ["CopyVectorHalf"],
        "operators": {"Add": ["_BinaryElementWise"], "Gelu": ["fill"], "Reshape": []},
    }
    assert text.splitlines()[-2:] == ["#   flash_fwd_kernel", "#   moe"]


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
