"""Upstream's kernel tables and type control, reduced."""

import re
from pathlib import Path

import pytest
from tests.support.small_archive import request

from edgepack.errors import ToolError, UnsupportedModelError
from edgepack.foundry.releases.ort_1_21.registrations import (
    added_by_optimizers,
    kernels_in,
    possible_operators,
    reduce_registrations,
    registration_patch,
    registrations,
    require_kernels,
)
from edgepack.foundry.releases.ort_1_21.type_filter import type_filter
from edgepack.foundry.releases.ort_1_21.typecontrol import (
    TYPE_CONTROL_PATCH,
    controlled_units,
    relevant_lines,
    type_control,
)
from edgepack.operators.config import parse_config
from edgepack.records.operators import Operators

TABLE = """\
namespace onnxruntime {
class ONNX_OPERATOR_KERNEL_CLASS_NAME(kCpuExecutionProvider, kOnnxDomain, 14, Reshape);
template <>
KernelCreateInfo BuildKernelCreateInfo<void>() { return {}; }
Status RegisterOnnxOperatorKernels(KernelRegistry& kernel_registry) {
  static const BuildKernelCreateInfoFn function_table[] = {
      BuildKernelCreateInfo<void>,  // default entry to avoid the list become empty after ops-reducing
      BuildKernelCreateInfo<ONNX_OPERATOR_VERSIONED_KERNEL_CLASS_NAME(kCpuExecutionProvider, kOnnxDomain, 5, 12,
                                                                      Reshape)>,
      BuildKernelCreateInfo<ONNX_OPERATOR_KERNEL_CLASS_NAME(kCpuExecutionProvider, kOnnxDomain, 14, Reshape)>,
      BuildKernelCreateInfo<ONNX_OPERATOR_TYPED_KERNEL_CLASS_NAME(kCpuExecutionProvider, kOnnxDomain, 14, float, Add)>,
      BuildKernelCreateInfo<ONNX_OPERATOR_TYPED_KERNEL_CLASS_NAME(kCpuExecutionProvider, kOnnxDomain, 14, double, Add)>,
      // BuildKernelCreateInfo<ONNX_OPERATOR_TYPED_KERNEL_CLASS_NAME(kCpuExecutionProvider, kOnnxDomain, 12,
      // MLFloat16_float, Dropout)>, BuildKernelCreateInfo<ONNX_OPERATOR_TYPED_KERNEL_CLASS_NAME(kCpuExecutionProvider,
      // kOnnxDomain, 12, MLFloat16_double, Dropout)>,
#ifdef MLAS_F16VEC_INTRINSICS_SUPPORTED
      BuildKernelCreateInfo<ONNX_OPERATOR_VERSIONED_TYPED_KERNEL_CLASS_NAME(kCpuExecutionProvider, kOnnxDomain, 6, 21,
                                                                            MLFloat16, Relu)>,
#endif
      BuildKernelCreateInfo<ONNX_OPERATOR_TWO_TYPED_KERNEL_CLASS_NAME(kCpuExecutionProvider, kOnnxDomain, 16, float,
                                                                      int64_t, Where)>,
      BuildKernelCreateInfo<class ONNX_OPERATOR_KERNEL_CLASS_NAME(kCpuExecutionProvider, kMLDomain, 1, Scaler)>};
}
}  // namespace onnxruntime
"""
CONTRIB = """\
namespace onnxruntime {
namespace contrib {
      BuildKernelCreateInfo<ONNX_OPERATOR_KERNEL_CLASS_NAME(kCpuExecutionProvider, kMSDomain, 1, BiasGelu)>,
}
}
"""
CONTROL = """\
// Example: ORT_SPECIFY_OP_KERNEL_ARG_ALLOWED_TYPES(kOnnxDomain, Cast, Input, 0, float);
namespace onnxruntime {
// @@insertion_point_begin(allowed_types)@@
// @@insertion_point_end(allowed_types)@@
}
"""


def reduced(config: str) -> tuple[str, set[tuple[str, int, tuple[str, ...]]]]:
    needs = parse_config(config)
    text, kept = reduce_registrations(TABLE, needs, type_filter(needs))
    return text, {(row.name, row.start, row.types) for row in kept}


def test_all_forms_of_rows_are_read() -> None:
    rows = [row for _, row in registrations(TABLE)]
    assert [(row.name, row.start, row.end, row.types) for row in rows] == [
        ("Reshape", 5, 12, ()),
        ("Reshape", 14, None, ()),
        ("Add", 14, None, ("float",)),
        ("Add", 14, None, ("double",)),
        ("Relu", 6, 21, ("MLFloat16",)),
        ("Where", 16, None, ("float", "int64_t")),
        ("Scaler", 1, None, ()),
    ]
    assert rows[-1].domain == "ai.onnx.ml"


def test_only_what_is_needed_stays() -> None:
    text, kept = reduced("ai.onnx;14;Reshape")
    assert kept == {("Reshape", 14, ())}
    assert "BuildKernelCreateInfo<void>," in text
    assert "Add" not in text and "Relu" not in text and "Dropout" not in text
    assert "class ONNX_OPERATOR_KERNEL_CLASS_NAME(kCpuExecutionProvider, kOnnxDomain, 14, Reshape);" in text
    assert re.search(r"#ifdef MLAS_F16VEC_INTRINSICS_SUPPORTED\s*#endif", text)
    assert text.count("{") == text.count("}")


def test_what_optimizers_add_in_extended_builds() -> None:
    header = """
    // @@region_begin(extended_minimal_build_required_kernels)@@
    OpIdentifierWithStringViews{kOnnxDomain, "Transpose", 13},
    OpIdentifierWithStringViews{kMSDomain,
                                "NhwcMaxPool", 1},
    // @@region_end(extended_minimal_build_required_kernels)@@
    OpIdentifierWithStringViews{kOnnxDomain, "Other", 1},
    """
    added = added_by_optimizers(header)
    assert {(one.domain, one.name, one.since) for one in added.kernels} == {
        ("ai.onnx", "Transpose", 13),
        ("com.microsoft", "NhwcMaxPool", 1),
    }


def test_optimizers_add_nothing_to_minimal_builds(tmp_path: Path) -> None:
    folder = tmp_path / "onnxruntime/core/optimizer/layout_transformation"
    folder.mkdir(parents=True)
    (folder / "layout_transformation_potentially_added_ops.h").write_text(
        "// @@region_begin(extended_minimal_build_required_kernels)@@\n"
        'OpIdentifierWithStringViews{kOnnxDomain, "Transpose", 13},\n'
        "// @@region_end(extended_minimal_build_required_kernels)@@\n"
    )
    needs = parse_config("ai.onnx;14;Reshape")
    assert possible_operators(tmp_path, "minimal", needs) == needs
    both = parse_config("ai.onnx;13;Transpose\nai.onnx;14;Reshape")
    assert possible_operators(tmp_path, "minimal-extended", needs) == both


def test_a_header_that_marks_nothing_adds_nothing() -> None:
    assert not added_by_optimizers('OpIdentifierWithStringViews{kOnnxDomain, "Transpose", 13}').kernels


def test_the_patch_keeps_what_is_possible_in_the_runtime_s_kind() -> None:
    """Types are those of the needs alone where nothing else can come; integers stay where optimizers may need them."""
    table = TABLE.replace("14, double, Add", "14, int64_t, Add")
    needs = parse_config('ai.onnx;14;Add{"inputs":{"0":["float"]}}')
    possible = parse_config('ai.onnx;14;Add{"inputs":{"0":["float"]}},Reshape')
    patch = registration_patch("core/providers/cpu/cpu_execution_provider.cc")

    def kept(kind: str) -> set[tuple[str, tuple[str, ...]]]:
        asked = request(needs, possible=possible, kind=kind)
        made = patch.rewritten(table, asked, origin="ONNX Runtime 1.21")
        return {(row.name, row.types) for _, row in registrations(made)}

    assert kept("minimal") == {("Add", ("float",)), ("Reshape", ())}
    assert kept("minimal-extended") == {("Add", ("float",)), ("Add", ("int64_t",)), ("Reshape", ())}


def test_a_table_of_another_form_is_refused() -> None:
    """Nothing would be reduced."""
    patch = registration_patch("core/providers/cpu/cpu_execution_provider.cc")
    with pytest.raises(ToolError, match=r"cpu_execution_provider\.cc is not as ONNX Runtime 2's: rows of"):
        patch.rewritten(TABLE.replace("BuildKernelCreateInfo", "Make"), request(), origin="ONNX Runtime 2")


def test_kernels_of_reduced_sources() -> None:
    needs = parse_config("ai.onnx;14;Reshape\ncom.microsoft;1;BiasGelu")
    text, _ = reduce_registrations(TABLE, needs, None)
    symbols = kernels_in([text, CONTRIB], needs)
    assert [re.findall("Reshape|BiasGelu", symbol) for symbol in symbols] == [["Reshape"], ["BiasGelu"]]
    with pytest.raises(UnsupportedModelError, match=r"com\.microsoft:BiasGelu\(1\)"):
        kernels_in([text], needs)


def test_a_version_within_the_range_of_a_row_keeps_it() -> None:
    assert reduced("ai.onnx;12;Reshape")[1] == {("Reshape", 5, ())}
    assert reduced("ai.onnx;13;Reshape")[1] == set()


def test_lines_stay_where_they_were() -> None:
    text, _ = reduced("ai.onnx;14;Reshape")
    assert text.count("\n") == TABLE.count("\n")
    assert text.splitlines()[-1] == TABLE.splitlines()[-1]


def test_types_choose_among_typed_rows() -> None:
    assert reduced("ai.onnx;14;Add")[1] == {("Add", 14, ("float",)), ("Add", 14, ("double",))}
    assert reduced('ai.onnx;14;Add{"inputs":{"0":["float"]}}')[1] == {("Add", 14, ("float",))}


def test_an_operator_without_types_keeps_all_of_them_beside_one_that_has_some() -> None:
    assert reduced('ai.onnx;14;Add,Reshape{"inputs":{"1":["int64_t"]}}')[1] == {
        ("Add", 14, ("float",)),
        ("Add", 14, ("double",)),
        ("Reshape", 14, ()),
    }


def test_integers_are_kept_where_optimizers_may_need_them() -> None:
    table = TABLE.replace("14, double, Add", "14, int64_t, Add")
    needs = parse_config('ai.onnx;14;Add{"inputs":{"0":["float"]}}')
    exact, kept = (
        {row.types for row in reduce_registrations(table, needs, type_filter(needs, exact=one))[1]}
        for one in (True, False)
    )
    assert exact == {("float",)}
    assert kept == {("float",), ("int64_t",)}


def test_types_that_upstream_does_not_track_choose_too() -> None:
    table = TABLE.replace("14, float, Add", "17, float, LayerNormalization").replace(
        "14, double, Add", "17, double, LayerNormalization"
    )
    needs = parse_config('ai.onnx;17;LayerNormalization{"inputs":{"0":["float"]}}')
    _, kept = reduce_registrations(table, needs, type_filter(needs))
    assert [row.types for row in kept] == [("float",)]
    everything = parse_config("ai.onnx;17;LayerNormalization")
    assert len(reduce_registrations(table, everything, type_filter(everything))[1]) == 2


def test_types_of_two_versions_are_taken_together() -> None:
    config = 'ai.onnx;14;Add{"inputs":{"0":["float"]}}\nai.onnx;20;Add{"inputs":{"0":["double"]}}'
    assert reduced(config)[1] == {("Add", 14, ("float",)), ("Add", 14, ("double",))}


def test_globally_allowed_types_choose_too() -> None:
    assert reduced("!globally_allowed_types;double\nai.onnx;14;Add")[1] == {("Add", 14, ("double",))}


def test_an_operator_without_a_kernel_is_named() -> None:
    needs = parse_config("ai.onnx;14;Reshape\nai.onnx;22;Mish\ncom.acme;1;Own")
    rows = [row for _, row in registrations(TABLE)]
    with pytest.raises(UnsupportedModelError, match=r"no kernel for ai\.onnx:Mish\(22\), com\.acme:Own\(1\)"):
        require_kernels(needs, rows)
    require_kernels(parse_config("ai.onnx;14;Reshape"), rows)


def test_a_row_knows_the_function_that_it_refers_to() -> None:
    (plain,) = (row.symbol for _, row in registrations(TABLE) if row.types == ("double",))
    assert plain == (
        "_ZN11onnxruntime21BuildKernelCreateInfoINS_"
        "50kCpuExecutionProvider_Add_kOnnxDomain_ver14_doubleEEENS_16KernelCreateInfoEv"
    )
    ((_, row),) = registrations(CONTRIB)
    assert row.symbol == (
        "_ZN11onnxruntime7contrib21BuildKernelCreateInfoINS0_"
        "45kCpuExecutionProvider_BiasGelu_kMSDomain_ver1EEENS_16KernelCreateInfoEv"
    )


def lines_for(config: str) -> list[str]:
    types = type_filter(parse_config(config))
    return types.get_cpp_entries() if types else []


def test_type_control_gets_the_allowed_types() -> None:
    lines = lines_for('ai.onnx;13;Cast{"inputs":{"0":["int64_t"]},"outputs":{"0":["float"]}},Flatten')
    text = type_control(CONTROL, lines)
    assert "ORT_SPECIFY_OP_KERNEL_ARG_ALLOWED_TYPES(kOnnxDomain, Cast, Input, 0, int64_t);" in text
    assert "ORT_SPECIFY_OP_KERNEL_ARG_ALLOWED_TYPES(kOnnxDomain, Cast, Output, 0, float);" in text
    assert "Flatten" not in text
    assert type_control(text, []) == CONTROL


def test_type_control_names_the_operators_that_upstream_does_not_track() -> None:
    assert lines_for('com.microsoft;1;SkipLayerNormalization{"inputs":{"0":["float"]}}') == [
        "ORT_SPECIFY_OP_KERNEL_ARG_ALLOWED_TYPES(kMSDomain, SkipLayerNormalization, Input, 0, float);"
    ]


def test_a_unit_is_compiled_against_the_lines_that_concern_it() -> None:
    needs = parse_config(
        'ai.onnx;13;Cast{"inputs":{"0":["bool"]}},Gather{"inputs":{"1":["int64_t"]}},Flatten'
    )

    def made(needs: Operators, *named: str) -> str:
        asked = request(needs, named=frozenset(named))
        return TYPE_CONTROL_PATCH.rewritten(CONTROL, asked, origin="ONNX Runtime 1.21")

    cast = "ORT_SPECIFY_OP_KERNEL_ARG_ALLOWED_TYPES(kOnnxDomain, Cast, Input, 0, bool);"
    gather = "ORT_SPECIFY_OP_KERNEL_ARG_ALLOWED_TYPES(kOnnxDomain, Gather, Input, 1, int64_t);"
    assert made(needs, "Cast") == type_control(CONTROL, [cast])
    assert made(needs, "Cast", "Gather") == type_control(CONTROL, [cast, gather])
    assert made(needs, "Flatten") == made(parse_config("ai.onnx;13;Cast"), "Cast") == CONTROL


def test_a_tree_without_insertion_point_is_refused() -> None:
    with pytest.raises(
        ToolError, match=r"op_kernel_type_control_overrides\.inc is not as ONNX Runtime 1\.21's"
    ):
        TYPE_CONTROL_PATCH.rewritten("namespace onnxruntime {}", request(), origin="ONNX Runtime 1.21")


def test_sources_that_type_control_changes(tmp_path: Path) -> None:
    root = tmp_path / "onnxruntime"
    files = {
        "core/providers/op_kernel_type_control_overrides.inc": CONTROL,
        "core/providers/op_kernel_type_control.h": (
            '#include "core/providers/op_kernel_type_control_overrides.inc"\n'
            "#define ORT_SPECIFY_OP_KERNEL_ARG_DEFAULT_TYPES(p, d, o, a, i, ...) void f();\n"
        ),
        "core/cast.h": (
            '#pragma once\n#include "gsl/gsl"\n  # include "core/providers/op_kernel_type_control.h"\n'
        ),
        "core/cast.cc": '#include "core/cast.h"\n#include <vector>\nORT_SPECIFY_OP_KERNEL_ARG_DEFAULT_TYPES(kCpu, kOnnxDomain, Cast,\n Input, 0, float);\n',
        "core/free.cc": '#include "core/cast.h"\n',
        "core/other.cc": "#include <vector>\n",
        "core/macro.cc": '#include "core/cast.h"\n#define R(Op) \\\n  ORT_SPECIFY_OP_KERNEL_ARG_DEFAULT_TYPES(kCpu, kOnnxDomain, Op, Input, 0, float);\n',
    }
    files["core/single.cc"] = (
        '#include "core/cast.h"\nvoid f();\n'
        "  #define S(Op) ORT_SPECIFY_OP_KERNEL_ARG_DEFAULT_TYPES(kCpu, kOnnxDomain, Op, Input, 0, float);\n"
    )
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "core/other.cc").write_bytes(b"// caf\xe9, as in some of upstream's files\n")
    sources = {name: root / f"core/{name}.cc" for name in ("cast", "free", "other", "macro", "single")}
    found = controlled_units(sources, root)
    assert found["cast"] == {"Cast"}
    assert set(found) == {"cast", "macro", "single"} and found["single"] == found["macro"]
    lines = lines_for('ai.onnx;13;Cast{"inputs":{"0":["bool"]}},Gather{"inputs":{"1":["int64_t"]}}')
    assert relevant_lines(lines, found["cast"]) == [
        "ORT_SPECIFY_OP_KERNEL_ARG_ALLOWED_TYPES(kOnnxDomain, Cast, Input, 0, bool);"
    ]
    assert len(relevant_lines(lines, found["macro"])) == 2
    everywhere = lines_for("!globally_allowed_types;float\nai.onnx;13;Cast")
    assert relevant_lines(everywhere, found["cast"]) == everywhere != []
