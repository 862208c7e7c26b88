"""What a link asks for is compiled, and nothing else."""

from collections.abc import Collection, Mapping
from pathlib import Path

from edgepack.foundry.link.demand import Demand, Index, find_demand
from edgepack.foundry.link.index import dump_index
from edgepack.foundry.link.search import identifiers, may_define
from edgepack.foundry.symbols import Symbols

NO_INDEX = Index(definers=lambda symbol: (), edges={})


def unit(defines: str = "", needs: str = "", weak: str = "") -> Symbols:
    return Symbols(
        defines=frozenset(defines.split()), needs=frozenset(needs.split()), weak=frozenset(weak.split())
    )


PROGRAM = {
    "api": unit("Api", "Session malloc"),
    "session": unit("Session", "Graph inline"),
    "graph": unit("Graph", "", "inline"),
    "registrations": unit("Register", "AddKernel"),
    "add": unit("AddKernel", "Gemm", "inline"),
    "mul": unit("MulKernel", "Gemm"),
    "gemm": unit("Gemm"),
    "unused": unit("Unused", "MulKernel"),
}


class Compiler:
    """Hands out symbols, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.rounds: list[set[str]] = []

    def __call__(self, names: Collection[str]) -> Mapping[str, Symbols]:
        self.rounds.append(set(names))
        return {name: PROGRAM[name] for name in names}


def search(symbols: Collection[str], rest: Collection[str]) -> set[str]:
    return {name for name in rest if PROGRAM[name].defines & set(symbols)}


def run(index: Index, compiler: Compiler, symbols: Collection[str] = ("Api",)) -> Demand:
    return find_demand(
        ["registrations"],
        symbols,
        units=PROGRAM,
        index=index,
        compile=compiler,
        search=search,
        offered=frozenset({"malloc"}),
    )


def index_of(names: Collection[str]) -> Index:
    import json

    import zstandard

    from edgepack.foundry.link.index import _read

    packed = dump_index({name: PROGRAM[name] for name in names}, exports=["Api"])
    return _read(json.loads(zstandard.ZstdDecompressor().decompress(packed)))


LINKED = ("add", "api", "gemm", "graph", "registrations", "session")


def test_without_an_index_the_search_leads_the_way() -> None:
    compiler = Compiler()
    assert run(NO_INDEX, compiler).units == LINKED
    assert set().union(*compiler.rounds) == set(LINKED)
    assert len(compiler.rounds) > 2


def test_with_an_index_one_round_is_enough() -> None:
    compiler = Compiler()
    demand = run(index_of(PROGRAM), compiler, ["Api", "AddKernel"])
    assert demand.units == LINKED
    assert demand.rounds == 1
    assert not {"mul", "unused"} & compiler.rounds[0]


def test_expected_symbols_that_no_index_knows_are_searched_for_at_once() -> None:
    compiler = Compiler()
    demand = find_demand(
        ["registrations"],
        ["Api"],
        units=PROGRAM,
        index=index_of([name for name in PROGRAM if name != "registrations"]),
        compile=compiler,
        search=search,
        offered=frozenset({"malloc"}),
        expected=["AddKernel"],
    )
    assert demand.units == LINKED
    assert demand.rounds == 1


def test_an_index_that_lacks_units_only_costs_rounds() -> None:
    compiler = Compiler()
    assert run(index_of(["registrations", "add"]), compiler).units == LINKED


def test_a_wrong_index_costs_objects_and_never_changes_the_link() -> None:
    wrong = Index(definers=lambda symbol: ["unused", "absent"], edges={"api": ["mul"]})
    assert run(wrong, Compiler()).units == LINKED


def test_what_nobody_defines_is_external() -> None:
    demand = find_demand(
        ["api"], [], units=PROGRAM, index=NO_INDEX, compile=Compiler(), search=search, offered=frozenset()
    )
    assert demand.undefined == {"malloc"}


def test_what_the_c_library_offers_is_not_looked_for() -> None:
    asked: set[str] = set()

    def watch(symbols: Collection[str], rest: Collection[str]) -> set[str]:
        asked.update(symbols)
        return search(symbols, rest)

    find_demand(
        ["api"],
        [],
        units=PROGRAM,
        index=NO_INDEX,
        compile=Compiler(),
        search=watch,
        offered=frozenset({"malloc"}),
    )
    assert "malloc" not in asked and "Session" in asked


def test_a_strong_definition_is_preferred_to_an_inline_one() -> None:
    program = {"a": unit("", "f"), "b": unit("", "", "f"), "c": unit("f")}
    index = Index(definers=lambda symbol: ["b", "c"], edges={})
    demand = find_demand(
        ["a"],
        [],
        units=program,
        index=index,
        compile=lambda names: {name: program[name] for name in names},
        search=lambda symbols, rest: (),
    )
    assert demand.units == ("a", "c")


def test_names_in_mangled_symbols() -> None:
    assert identifiers("_ZN11onnxruntime5Graph7ResolveEv") == ["onnxruntime", "Graph", "Resolve"]
    assert identifiers("_ZN11onnxruntime5GraphC2ERKNS_5ModelE") == ["onnxruntime", "Graph", "Graph"]
    assert identifiers("_ZNK11onnxruntime6Tensor5ShapeEv") == ["onnxruntime", "Tensor", "Shape"]
    assert identifiers("_ZTVN11onnxruntime8OpKernelE") == ["onnxruntime", "OpKernel"]
    assert identifiers("MlasGemm") == ["MlasGemm"]


def test_sources_that_may_define_a_symbol() -> None:
    texts = {
        "graph.cc": "Status Graph::Resolve() {",
        "user.cc": "graph.Resolve();",
        "gather.cc": "ONNX_CPU_OPERATOR_KERNEL(\n    Gather, 13,",
    }
    candidates = {name: Path(name) for name in texts}
    assert may_define(["_ZN11onnxruntime5Graph7ResolveEv"], candidates, texts=texts) == {"graph.cc"}
    kernel = "_ZN11onnxruntime21BuildKernelCreateInfoINS_46kCpuExecutionProvider_Gather_kOnnxDomain_ver13EEENS_16KernelCreateInfoEv"
    assert may_define([kernel], candidates, texts=texts) == {"gather.cc"}
    schema = "_ZN11onnxruntime7contrib11GetOpSchemaINS0_14Crop_Onnx_ver1EEEN4onnx8OpSchemaEv"
    texts["schemas.cc"] = "ONNX_CONTRIB_OPERATOR_SET_SCHEMA(\n    Crop, 1,"
    texts["other.cc"] = "Crop(image); ONNX_OPERATOR_SCHEMA(CropAndResize)"
    candidates |= {name: Path(name) for name in ("schemas.cc", "other.cc")}
    assert may_define([schema], candidates, texts=texts) == {"schemas.cc"}
    assert may_define(["memcpy"], candidates, texts=texts) == set()


def test_a_registration_in_a_macro_of_several_lines_is_found(tmp_path: Path) -> None:
    source = tmp_path / "embed_layer_norm.cc"
    source.write_text(
        "#define REGISTER_KERNEL_TYPED(T) \\\n  ONNX_OPERATOR_TYPED_KERNEL_EX( \\\n    EmbedLayer, \\\n"
    )
    kernel = "_ZN11onnxruntime7contrib21BuildKernelCreateInfoINS0_48kCpuExecutionProvider_EmbedLayer_kMSDomain_ver1E"
    assert may_define([kernel], {"embed": source}) == {"embed"}
