"""The libraries of a CUDA bundle: what is named and not used goes, what is pruned still loads, beside nothing but stubs."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.cuda_libraries import Unit, library
from tests.support.fake_cuda import compile_driver, compile_library
from tests.support.run_path import run_path

from edgepack.api import BundleError, Target, TargetError
from edgepack.api.kit import Wheel
from edgepack.console import Story
from edgepack.files.elf import needed_libraries, opened_libraries
from edgepack.files.store import Store
from edgepack.plugins.context import HostContext, host_context
from edgepack.plugins.host import load_plugins
from edgepack_cuda import runtime
from edgepack_cuda.builder import create_builder
from edgepack_cuda.inspect import inspect_device_code
from edgepack_cuda.nvidia import CUBLAS, CUDART, ONNXRUNTIME_GPU, SHARED
from edgepack_cuda.runtime import PROVIDER, Choice, closure_of_provider, libraries_for

pytestmark = pytest.mark.tools("gcc", "python", may=("dpkg-query", "patchelf"))
CHOICE = Choice(architectures=("86",), operators=("Add", "MatMul"))


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CUDA's libraries as far as the made-up provider asks for them; no cuRAND."""
    folder = tmp_path_factory.mktemp("stubs")
    for name, function in (
        ("libcublas.so.13", "cublasCreate_v2"),
        ("libcublasLt.so.13", "cublasLtCreate"),
        ("libcudart.so.13", "cudaMalloc"),
    ):
        (folder / "map").write_text(f"{name} {{ global: *; }};")
        compile_library(
            folder / name, f"int {function}(void) {{ return 1; }}", f"-Wl,--version-script={folder / 'map'}"
        )
    compile_driver(folder)
    return folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, stubs: Path) -> Path:
    """What is unpacked of the wheel, with a small provider that names what the real one names."""
    folder = tmp_path_factory.mktemp("wheel")
    capi = folder / "onnxruntime" / "capi"
    others = tmp_path_factory.mktemp("curand")
    compile_library(others / "libcurand.so.10", "int curandCreate(void) { return 1; }")
    (folder / "use.c").write_text(
        "int cublasCreate_v2(void), cublasLtCreate(void), cudaMalloc(void);\n"
        'const char *lazy(void) { return "libcudnn.so.9"; }\n'
        "int use(void) { return cublasCreate_v2() + cublasLtCreate() + cudaMalloc(); }\n"
    )
    named = [*stubs.glob("libcublas*.so*"), *stubs.glob("libcudart*"), stubs / "libcuda.so.1"]
    options = ["-Wl,--no-as-needed", str(folder / "use.c"), *map(str, named), str(others / "libcurand.so.10")]
    shutil.move(library(folder / "made", name=PROVIDER, options=[*options, "-Wl,-z,now"]), folder / PROVIDER)
    capi.mkdir(parents=True)
    shutil.move(folder / PROVIDER, capi / PROVIDER)
    for name in ("libonnxruntime.so.9.9.9", SHARED):
        compile_library(capi / name, "int nothing;")
    for name in ("LICENSE", "ThirdPartyNotices.txt"):
        (folder / "onnxruntime" / name).write_text(f"{name}\n")
    return folder


@pytest.fixture
def context(tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostContext]:
    monkeypatch.setattr(runtime, "wheel_files", lambda *_, **__: wheel)
    store = Store(root=tmp_path / "store")
    with host_context(story=Story(quiet=True), offline=True, store=store) as made:
        yield made


def test_what_is_wanted_is_read_from_the_file(wheel: Path) -> None:
    provider = wheel / "onnxruntime" / "capi" / PROVIDER
    closure = closure_of_provider(provider)
    assert closure.elsewhere == ("libcublas.so.13", "libcublasLt.so.13", "libcuda.so.1", "libcudart.so.13")
    assert closure.unused == {PROVIDER: ("libcurand.so.10",)}
    assert opened_libraries(provider) == ("libcudnn.so.9",)


def test_the_closure_of_a_thin_bundle(context: HostContext) -> None:
    made = libraries_for(CHOICE, context=context)
    provider = next(path for path in made.folder.companions if path.name == PROVIDER)
    assert "libcurand.so.10" not in needed_libraries(provider)
    assert run_path(provider) == "$ORIGIN"
    cpp = ("libgcc_s.so.1", "libstdc++.so.6")
    assert made.device == (*cpp, "libcudart.so.13", "libcublasLt.so.13", "libcublas.so.13"), (
        "in an order that loads"
    )
    assert {path.name for path in made.folder.companions} == {
        PROVIDER,
        SHARED,
        "libstdc++.so.6",
        "libgcc_s.so.1",
    }
    assert {path.stem.split("-")[0] for path in made.folder.licenses} == {
        "onnxruntime",
        "libstdc++",
        "libgcc_s",
    }
    assert any("no longer names libcurand.so.10" in change for change in made.changes)


@pytest.mark.slow
def test_it_loads_with_all_symbols_bound_beside_stubs_only(
    context: HostContext, wheel: Path, stubs: Path
) -> None:
    made = libraries_for(CHOICE, context=context)
    provider = next(path for path in made.folder.companions if path.name == PROVIDER)
    assert loads(provider, stubs) == ""
    whole = wheel / "onnxruntime" / "capi" / PROVIDER
    assert "libcurand.so.10: cannot open" in loads(whole, stubs), (
        "the whole one needs what nothing of it uses"
    )


@pytest.fixture
def vendor(
    tmp_path: Path, context: HostContext, wheel: Path, stubs: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Path]:
    """The wheels of cuBLAS, of which each library has device code, and of cudart, which has none."""
    code = (Unit(kernels=("_Z4gemm",), architectures=("75", "80", "86", "90")),)
    files = {
        "libcublas.so.13": library(tmp_path / "cublas", code, name="libcublas.so.13"),
        "libcublasLt.so.13": library(tmp_path / "cublas", code, name="libcublasLt.so.13"),
        "libcudart.so.13": Path(shutil.copy(stubs / "libcudart.so.13", tmp_path)),
    }
    folders = {CUBLAS: files["libcublas.so.13"].parent, CUDART: tmp_path, ONNXRUNTIME_GPU: wheel}
    monkeypatch.setattr(runtime, "wheel_files", lambda wanted, **_: folders[wanted])
    return files


@pytest.mark.slow
def test_the_full_layout_has_cuda_as_it_came(context: HostContext, vendor: dict[str, Path]) -> None:
    made = libraries_for(replace(CHOICE, layout="full"), context=context)
    found = {path.name: path for path in made.folder.companions}
    assert {name: found[name].read_bytes() for name in vendor} == {
        name: path.read_bytes() for name, path in vendor.items()
    }
    assert not any("cublas" in change for change in made.changes)
    terms = next(path for path in made.folder.licenses if path.stem == "libcublas").read_text()
    assert "unmodified" in terms and CUBLAS.requirement in terms


@pytest.mark.slow
def test_the_lite_layout_has_less_and_says_so(context: HostContext, vendor: dict[str, Path]) -> None:
    made = libraries_for(replace(CHOICE, layout="lite"), context=context)
    found = {path.name: path for path in made.folder.companions}
    assert found["libcudart.so.13"].read_bytes() == vendor["libcudart.so.13"].read_bytes()
    for name in ("libcublas.so.13", "libcublasLt.so.13"):
        kept = {part.architecture for part in inspect_device_code(found[name]).parts if part.kind == "cubin"}
        assert kept == {"8.0", "8.6"}, "it chooses by itself"
        assert found[name].stat().st_size < vendor[name].stat().st_size
        (said,) = [change for change in made.changes if change.startswith(f"{name}: ")]
        assert "at the builder's own wish (prune_vendor)" in said
        assert "changed: device code for 80, 86" in (
            next(path for path in made.folder.licenses if path.stem == name.partition(".")[0]).read_text()
        )


def loads(path: Path, stubs: Path) -> str:
    """What the loader complains of."""
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1], mode=2)"
    environment = {"LD_LIBRARY_PATH": str(stubs), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    return done.stderr


@pytest.mark.slow
def test_another_build_is_pruned_by_architecture_and_says_so(context: HostContext) -> None:
    made = libraries_for(CHOICE, context=context)
    assert made.notes
    assert "is not the build that the lists for 1.31.1 describe" in made.notes[0]
    assert not made.listed
    assert ": 3 of 4 translation units" in made.changes[0]
    assert made.capabilities == ("8.6",)


@pytest.mark.slow
def test_lists_of_the_very_build_choose_units(context: HostContext, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgepack_cuda import lists as subject
    from edgepack_cuda.lists import Lists

    lists = Lists(
        version="1.31.1",
        units=4,
        always=("CopyVectorHalf",),
        operators={"Add": ("_BinaryElementWise",), "MatMul": ()},
    )
    monkeypatch.setattr(subject, "lists_for", lambda version: lists)
    made = libraries_for(CHOICE, context=context)
    assert made.listed
    assert not made.notes
    assert ": 2 of 4 translation units" in made.changes[0]
    unknown = libraries_for(replace(CHOICE, operators=("Add", "Conv")), context=context)
    assert "do not know Conv" in unknown.notes[0]
    assert not unknown.listed


def test_an_architecture_that_the_wheel_has_no_code_for(context: HostContext) -> None:
    with pytest.raises(TargetError, match=r"no code that runs on compute capability 12\.0"):
        libraries_for(replace(CHOICE, architectures=("120",)), context=context)
    assert not list(context.store.root.glob("cuda-runtime/*/lib")), "nothing half-made stays"


def test_a_wheel_without_the_provider(
    context: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "wheel_files", lambda *_, **__: tmp_path)
    with pytest.raises(BundleError, match="the wheel holds no libonnxruntime"):
        libraries_for(CHOICE, context=context)


def target(*overrides: str) -> Target:
    return load_plugins().target("linux-x64-cuda", overrides)


@pytest.mark.parametrize(
    ("override", "message", "hint"),
    [
        ("layout=lite", "prunes NVIDIA's own libraries", "prune_vendor=true"),
        ("model.format=ort", "of a different version than the converter", "model.format=onnx"),
        ("capabilities=[]", "capabilities is empty", "native"),
        ("platform.arch=aarch64", "not linux aarch64", "no wheel"),
        ("layout=thinn", "option layout is 'thinn' (did you mean thin?)", "thin, full, lite"),
        (
            "capabilites=[]",
            "unknown option capabilites (did you mean capabilities?)",
            "batch_size, capabilities,",
        ),
    ],
)
def test_options_that_make_no_sense(context: HostContext, override: str, message: str, hint: str) -> None:
    with pytest.raises(TargetError) as info:
        create_builder(target(override), context)
    assert message in info.value.message
    assert hint in (info.value.hint or "")


def test_compute_capabilities_with_and_without_their_dot(context: HostContext) -> None:
    made = create_builder(target('capabilities=["8.6", "90", 12.0, 86]'), context)
    assert made.architectures == ("86", "90", "120")  # type: ignore[attr-defined]


def test_fetching_asks_for_the_wheels_of_the_layout(
    context: HostContext, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def files(which: Wheel, **_: object) -> Path:
        asked.append(which.name)
        return wheel

    monkeypatch.setattr(runtime, "wheel_files", files)
    spec = load_plugins().builders["cuda"]
    assert spec.fetch is not None
    spec.fetch(target(), context)
    assert asked == ["onnxruntime-gpu"]
    spec.fetch(target("layout=full"), context)
    assert asked[1:] == ["onnxruntime-gpu", "nvidia-cublas", "nvidia-cuda-runtime"]
