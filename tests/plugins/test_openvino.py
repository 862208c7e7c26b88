"""The parts of the example plugin for OpenVINO, without its wheel."""

import importlib
import subprocess
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from edgepack.errors import BundleError, DownloadError, TargetError
from edgepack.plugins.context import HostContext
from edgepack.records.target import Target
from edgepack.targets import read_target

EXAMPLE = Path(__file__).parents[2] / "plugins" / "examples" / "edgepack_openvino"


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    return importlib.import_module("edgepack_openvino.builder")


@pytest.fixture
def libraries(plugin: ModuleType) -> ModuleType:
    return importlib.import_module("edgepack_openvino.libraries")


def target(*overrides: str) -> Target:
    file = EXAMPLE / "edgepack_openvino" / "linux-x86-openvino.toml"
    return read_target(file, origin="edgepack-openvino", overrides=overrides)


def compiled(output: Path, *needs: Path) -> Path:
    """A shared library that needs others, which are called in it."""
    output.parent.mkdir(parents=True, exist_ok=True)
    calls = "".join(f"void {path.stem.split('.')[0]}(void);\n" for path in needs)
    body = "".join(f"{path.stem.split('.')[0]}(); " for path in needs)
    source = f"{calls}void {output.stem.split('.')[0]}(void) {{ {body}}}\n"
    command = [
        "gcc",
        "-shared",
        "-fPIC",
        "-xc",
        "-",
        "-xnone",
        f"-Wl,-soname,{output.name}",
        "-o",
        str(output),
    ]
    subprocess.run([*command, *map(str, needs)], input=source, text=True, check=True)
    return output


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A folder as the wheel's, with libraries that are named alike and need each other alike."""
    libs = tmp_path / "wheel" / "openvino" / "libs"
    tbb = compiled(libs / "libtbb.so.12")
    main = compiled(libs / "libopenvino.so.2641", tbb)
    for name in (
        "libopenvino_c.so.2641",
        "libopenvino_intel_cpu_plugin.so",
        "libopenvino_ir_frontend.so.2641",
    ):
        compiled(libs / name, main)
    compiled(libs / "libopenvino_onnx_frontend.so.2641", main)
    licenses = tmp_path / "wheel" / "openvino-2026.4.1.dist-info" / "licenses"
    (licenses / "licensing").mkdir(parents=True)
    (licenses / "LICENSE").write_text("Apache\n")
    (licenses / "licensing" / "onednn.txt").write_text("oneDNN\n")
    return tmp_path / "wheel"


def test_what_a_target_may_not_say(plugin: ModuleType, context: HostContext) -> None:
    plugin.create_builder(target(), context)
    with pytest.raises(TargetError, match="aarch64"):
        plugin.create_builder(target('platform.arch="aarch64"'), context)
    with pytest.raises(TargetError, match="device"):
        plugin.create_builder(target("device=GPU"), context)


@pytest.mark.parametrize(
    ("minor", "error", "words"),
    [
        (12, DownloadError, r"openvino==2026\.4\.1 \(59 MB\)"),
        (99, TargetError, "is pinned for cp399"),
    ],
)
def test_the_wheel_is_that_of_the_python_that_builds(
    plugin: ModuleType,
    libraries: ModuleType,
    context: HostContext,
    monkeypatch: pytest.MonkeyPatch,
    minor: int,
    error: type[Exception],
    words: str,
) -> None:
    monkeypatch.setattr(libraries, "sys", SimpleNamespace(version_info=SimpleNamespace(major=3, minor=minor)))
    with pytest.raises(error, match=words):
        plugin.fetch(target(), context)


@pytest.mark.tools("gcc", may=("ld", "as"))
def test_the_runtime_is_what_runs_on_a_processor(
    libraries: ModuleType, context: HostContext, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "openvino_wheel", lambda context: wheel)
    monkeypatch.setattr(libraries, "system_libraries", lambda names, *, context: ())
    made = libraries.openvino_runtime(context)
    assert (made.name, made.version, made.kind, made.provides) == ("OpenVINO", "2026.4.1", "wheel", None)
    assert made.library.name == "libopenvino_c.so.2641"
    assert [path.name for path in made.companions] == [
        "libopenvino.so.2641",
        "libopenvino_intel_cpu_plugin.so",
        "libopenvino_ir_frontend.so.2641",
        "libtbb.so.12",
    ]
    (text,) = made.licenses
    assert text.read_text() == "Apache\n\noneDNN\n"


@pytest.mark.tools("gcc", may=("ld", "as"))
def test_a_wheel_that_lacks_a_library_is_refused(
    libraries: ModuleType, context: HostContext, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "openvino_wheel", lambda context: wheel)
    (wheel / "openvino" / "libs" / "libtbb.so.12").unlink()
    with pytest.raises(BundleError, match=r"libtbb\.so\.12, which is in none of the pinned wheels"):
        libraries.openvino_runtime(context)
