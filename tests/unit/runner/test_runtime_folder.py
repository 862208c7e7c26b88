"""A stock runtime's libraries and licences, laid as a builder lays them."""

from pathlib import Path

import pytest
from tests.support.fake_cuda import compile_library
from tests.support.run_path import run_path

from edgepack.errors import BundleError
from edgepack.files.elf import needed_libraries
from edgepack.plugins.context import HostContext
from edgepack.runner.runtime_folder import RuntimeFolder, SystemLibrary, onnxruntime_files

pytestmark = pytest.mark.tools("gcc", "patchelf")
PROVIDER = "libonnxruntime_providers_x.so"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """An unpacked wheel of ONNX Runtime whose provider names a library that it does not use."""
    capi = tmp_path / "wheel/onnxruntime/capi"
    other = compile_library(tmp_path / "libother.so.3", "int other(void) { return 1; }\n")
    compile_library(capi / "libonnxruntime.so.1.2.3", "int ort(void) { return 1; }\n")
    compile_library(capi / PROVIDER, "int x(void) { return 1; }\n", "-Wl,--no-as-needed", other)
    (capi.parent / "LICENSE").write_text("MIT\n")
    (capi.parent / "ThirdPartyNotices.txt").write_text("others\n\n")
    return tmp_path / "wheel"


def test_what_a_builder_lays_is_what_its_artifact_takes(
    wheel: Path, tmp_path: Path, context: HostContext
) -> None:
    made = RuntimeFolder(tmp_path / "made")
    made.add_onnxruntime(wheel, PROVIDER)
    made.add_system([SystemLibrary(name="libz.so.1", file=wheel.parent / "libother.so.3", license="zlib\n")])
    made.beside_each_other(PROVIDER, drop=["libother.so.3"], context=context)
    assert made.onnxruntime.name == "libonnxruntime.so.1.2.3"
    assert [path.name for path in made.companions] == [PROVIDER, "libz.so.1"]
    assert {path.name: path.read_text() for path in made.licenses} == {
        "libz.txt": "zlib\n",
        "onnxruntime.txt": "MIT\n\nothers\n",
    }
    assert run_path(made.lib / PROVIDER) == "$ORIGIN"
    assert "libother.so.3" not in needed_libraries(made.lib / PROVIDER)


def test_a_runtime_that_is_not_onnx_runtime(tmp_path: Path) -> None:
    made = RuntimeFolder(tmp_path / "made")
    for name in ("libacme_c.so.7", "libacme.so.7", "libonnxruntime.so.1"):
        (tmp_path / name).write_text(name)
        made.add(tmp_path / name)
    made.add_license("acme", "MIT")
    said = made.artifact(
        library="libacme_c.so*", name="Acme", version="7.1", kind="wheel", toolchain="acme 7.1"
    )
    assert (said.name, said.version, said.kind, said.provider) == ("Acme", "7.1", "wheel", None)
    assert said.file.name == "libacme_c.so.7"
    assert [path.name for path in said.companions] == ["libacme.so.7", "libonnxruntime.so.1"]
    assert said.provides is None
    with pytest.raises(BundleError, match=r"the wheel holds no libother\.so"):
        made.artifact(library="libother.so", version="7.1", toolchain="acme 7.1")


def test_a_wheel_that_lacks_something(wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"the wheel holds no libonnxruntime_providers_y\.so"):
        RuntimeFolder(tmp_path / "made").add_onnxruntime(wheel, "libonnxruntime_providers_y.so")


def test_the_patterns_are_those_of_the_files(wheel: Path) -> None:
    from fnmatch import fnmatchcase

    files = {path.relative_to(wheel).as_posix() for path in wheel.rglob("*") if path.is_file()}
    assert all(any(fnmatchcase(file, pattern) for pattern in onnxruntime_files(PROVIDER)) for file in files)
    assert not any(fnmatchcase(f"onnxruntime/capi/{PROVIDER}", pattern) for pattern in onnxruntime_files())
