"""The Linux builder checks a target before anything is built."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from tests.support.signed import key_in
from tests.support.tiny import tarred, wheel_of, zipped

from edgepack import pipeline
from edgepack.errors import EdgepackError, TargetError, UsageError
from edgepack.files.elf import needed_libraries
from edgepack.files.store import sha256_of
from edgepack.models.ort.c_api import Session
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource, Pooling
from edgepack.records.report import PartSize, Report, Verification
from edgepack.records.runtime import RuntimeArtifact
from edgepack.records.target import Platform, Target
from edgepack.reports.reduced import ReducedSize, reduced_size
from edgepack.runner.freeze.sample_bundle import sample_model, stock_library
from edgepack.targets import built_in_targets, read_target
from edgepack_linux import stock, stock_price
from edgepack_linux.builder import LinuxBuilder, create_builder


def small(*overrides: str) -> Target:
    file = next(file for file in built_in_targets() if file.name == "linux-x86-min.toml")
    return read_target(file, origin="edgepack", overrides=overrides)


@pytest.mark.parametrize("runtime", ["minimal", "minimal-extended"])
def test_a_runtime_that_cannot_read_the_format_is_refused(context: HostContext, runtime: str) -> None:
    target = small("model.format=onnx", f"runtime={runtime}")
    with pytest.raises(TargetError, match=f"{runtime} runtime reads ORT format") as caught:
        create_builder(target, context)
    assert "--set runtime=full" in str(caught.value.hint)


def test_an_instruction_set_that_is_not_known_is_refused(context: HostContext) -> None:
    with pytest.raises(UsageError, match="mmx"):
        create_builder(small('platform.isa=["avx2", "mmx"]'), context)


def test_branch_protection_is_refused_where_linux_has_none(context: HostContext) -> None:
    with pytest.raises(UsageError, match="no branch protection for x86_64") as caught:
        create_builder(small("platform.branch_protection=true"), context)
    assert "docs/security.md" in str(caught.value.hint)


def test_a_full_runtime_reads_everything(context: HostContext) -> None:
    for form in ("onnx", "ort", "ort-runtime-opt"):
        create_builder(small(f"model.format={form}", "runtime=full"), context)


def test_a_runner_of_this_machine_s_kind_is_not_for_another(
    context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    file = next(file for file in built_in_targets() if file.name == "linux-arm64-min.toml")
    source = ModelSource(
        name="none",
        origin="test",
        directory=Path(),
        weights=None,
        onnx=None,
        tokenizer=Path(),
        config={},
        pooling=Pooling(),
        max_length=8,
        dimension=4,
    )
    builder = create_builder(read_target(file, origin="edgepack", overrides=["runner=pyinstaller"]), context)
    with pytest.raises(TargetError, match="made for this machine's architecture, x86_64") as caught:
        builder.prepare_model(source)
    assert "--set runner=native" in str(caught.value.hint)


def test_a_program_that_refuses_unsigned_bundles_wants_them_signed(
    tmp_path: Path, context: HostContext
) -> None:
    """Said before anything is fetched or made."""
    key = key_in(tmp_path)
    key_in(tmp_path, "other")
    for wanted, given in (("key", None), ("other", key)):
        target = context.plugins().target("linux-x86-min", [f'require_signature="{tmp_path}/{wanted}.pub"'])
        with pytest.raises(UsageError, match="not signed with that key"):
            pipeline.build(target, model=None, output=tmp_path, key=given, context=context)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (['require_signature="/nowhere.pub"'], "/nowhere.pub cannot be read"),
        (["library=true", "runner=pyinstaller"], "library goes with the native runner"),
    ],
)
def test_what_cannot_be_asked_of_a_program_is_refused(
    context: HostContext, overrides: list[str], words: str
) -> None:
    with pytest.raises(TargetError, match=words):
        create_builder(small(*overrides), context)


def stock_wheel_file(folder: Path, library: bytes | None, **named: str) -> Path:
    """A wheel as PyPI's are, with this library."""
    files = {"onnxruntime/LICENSE": b"MIT", "onnxruntime/ThirdPartyNotices.txt": b"others"}
    if library is not None:
        files["onnxruntime/capi/libonnxruntime.so.9.9.9"] = library
    name, content = wheel_of(files, **{"name": "onnxruntime", "version": "9.9.9", **named})
    file = folder / name
    file.write_bytes(content)
    return file


@pytest.fixture
def cxx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's packages of the C++ runtime, on a small scale."""
    archives = []
    for place in ("usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.28", "lib/x86_64-linux-gnu/libgcc_s.so.1"):
        archives.append(tmp_path / f"{Path(place).name}.tar.gz")
        archives[-1].write_bytes(tarred({place: place.encode()}))
    monkeypatch.setattr(stock, "fetch_archives", lambda wanted, **_: archives)


def stock_target(*overrides: str, name: str = "linux-x86-min") -> Target:
    file = next(file for file in built_in_targets() if file.name == f"{name}.toml")
    return read_target(file, origin="edgepack", overrides=("runtime=stock", *overrides))


def provided(target: Target, context: HostContext) -> RuntimeArtifact:
    builder = create_builder(target, context)
    assert isinstance(builder, LinuxBuilder) and builder.stock is not None
    return stock.stock_runtime(builder.stock, target.platform, context=context)


@pytest.mark.slow
def test_the_library_of_a_wheel(tmp_path: Path, context: HostContext, cxx: None) -> None:
    """The installed release's library, as it is in its wheel: without what nothing needs, with what it needs."""
    library = stock_library().read_bytes()
    file = stock_wheel_file(tmp_path, library)
    made = provided(stock_target(f'onnxruntime="{file}"', "model.format=onnx"), context)
    assert (made.version, made.kind, made.provides) == ("9.9.9", "stock", None)
    assert [path.name for path in made.companions] == ["libgcc_s.so.1", "libstdc++.so.6"]
    assert made.file.stat().st_size < len(library)
    assert "librt.so.1" in needed_libraries(stock_library())
    assert "librt.so.1" not in needed_libraries(made.file)
    assert {"libstdc++.so.6", "libgcc_s.so.1"} < set(needed_libraries(made.file))
    assert any("no longer names librt.so.1" in change for change in made.changes)
    by_component = {each.component: each for each in made.source_files}
    assert by_component["onnxruntime"].sha256 == sha256_of(file)
    assert by_component["libstdc++"].file == "libstdc++6_10.2.1-6_amd64.deb"
    assert {text.stem for text in made.licenses} == {"onnxruntime", "libstdc++-10.2.1", "libgcc_s-10.2.1"}
    again = Session(made.file, sample_model())
    assert [each.name for each in again.get_outputs()] == ["sentence_embedding"]


@pytest.mark.parametrize(
    ("overrides", "words", "hint"),
    [
        (
            ["onnxruntime=9.9.9"],
            r"onnxruntime: no wheel of ONNX Runtime 9\.9\.9 is pinned",
            "runtime versions",
        ),
        (["onnxruntime=1.31"], r"1\.31 is pinned \(did you mean 1\.31\.1", "runtime versions"),
        (
            ["onnxruntime=/nowhere/onnxruntime-1.whl"],
            "there is no wheel /nowhere/onnxruntime-1.whl",
            "name a file",
        ),
        (['platform.arch="riscv64"'], "is for linux on riscv64 with glibc", "runtime=minimal"),
        (["runtime_glibc=2.17"], "runtime_glibc", ""),
        (
            ["runtime=minimal", "onnxruntime=1.31.1"],
            r"edgepack compiles ONNX Runtime 1\.21\.0, not 1\.31\.1",
            "runtime=stock",
        ),
    ],
)
def test_a_stock_runtime_that_cannot_be_had(
    context: HostContext, overrides: list[str], words: str, hint: str
) -> None:
    """Said before anything is fetched or made."""
    with pytest.raises(TargetError, match=words) as caught:
        create_builder(stock_target(*overrides), context)
    assert hint in str(caught.value.hint)
    assert not context.store.kinds()


@pytest.mark.slow
def test_wheels_that_are_no_good(tmp_path: Path, context: HostContext, cxx: None) -> None:
    """Two lines each, and nothing half-made."""
    library = stock_library().read_bytes()

    def refused(file: Path) -> tuple[str, str]:
        with pytest.raises(EdgepackError) as caught:
            provided(stock_target(f'onnxruntime="{file}"'), context)
        assert not list(context.store.root.glob("stock-runtime/*"))
        return caught.value.message, str(caught.value.hint)

    other = bytearray(library)
    other[18:20] = (183).to_bytes(2, "little")
    said, hint = refused(stock_wheel_file(tmp_path, bytes(other)))
    assert said.endswith("is for aarch64, the target's devices are x86_64") and "wheel for x86_64" in hint
    said, hint = refused(stock_wheel_file(tmp_path, None))
    assert "has no libonnxruntime.so" in said and hint
    said, hint = refused(stock_wheel_file(tmp_path, library, name="onnxruntime_gpu"))
    assert "is a wheel of onnxruntime_gpu, not of onnxruntime" in said and hint
    whole = stock_wheel_file(tmp_path, library)
    whole.write_bytes(whole.read_bytes()[: len(library) // 4])
    said, hint = refused(whole)
    assert "is no whole wheel" in said and hint == "copy or download it again"
    whole.write_bytes(zipped({"hello.txt": b"hello"}))
    said, hint = refused(whole)
    assert "does not say its name and version" in said and hint


def bundle_of(folder: Path, **runtime: object) -> Bundle:
    manifest = {
        "runtime": {"version": "1.31.1", "kind": "stock", **runtime},
        "target": {"platform": {"os": "linux", "arch": "x86_64", "glibc": "2.28"}},
        "model": {"file": "model/model.onnx"},
    }
    return Bundle(directory=folder, manifest=manifest)


def report_of(raw: int, zstd: int) -> Report:
    part = PartSize(name="runtime", files=3, raw=raw, gzip=raw, brotli=raw, zstd=zstd)
    found = Verification(status="passed")
    return Report(bundle="b", target="t", parts=(part,), archive_bytes=None, costs=(), verification=found)


def test_the_price_of_a_stock_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle, report = bundle_of(tmp_path), report_of(31_000_000, 9_000_000)
    monkeypatch.setattr(stock_price, "reduced_size", lambda *_: ReducedSize(raw=1_000_000, zstd=400_000))
    rows = dict(stock_price.price_rows(bundle, report))
    assert rows == {
        "ONNX Runtime 1.31.1 as released": "31.00 MB, 9.00 MB under zstd",
        "a reduced runtime for this model": "1.00 MB, 0.40 MB under zstd",
        "the stock library costs more": "30.00 MB, 8.60 MB under zstd",
    }
    monkeypatch.setattr(stock_price, "reduced_size", lambda *_: ReducedSize(reason="none: it lacks all"))
    assert dict(stock_price.price_rows(bundle, report))["a reduced runtime for this model"] == (
        "none: it lacks all"
    )
    for other in (bundle_of(tmp_path, kind="minimal"), bundle_of(tmp_path, provider={"name": "CUDA"})):
        assert not list(stock_price.price_rows(other, report))


def test_why_there_is_no_reduced_runtime_beside_it(tmp_path: Path) -> None:
    """Said without compiling anything."""
    platform = Platform(os="linux", arch="x86_64", glibc="2.28")
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, None)
    for opset, said in ((23, "lacks opset 23, Swish"), (17, "it takes the model in ORT format")):
        node = helper.make_node("Swish" if opset > 17 else "Erf", ["x"], ["y"])
        out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph([node], "g", [value], [out])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        onnx.save(model, str(tmp_path / "m.onnx"))
        assert said in reduced_size(tmp_path / "m.onnx", platform).reason
