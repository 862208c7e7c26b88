"""The compilers are found, or what is missing is said."""

import importlib.util
from pathlib import Path

import pytest

from edgepack.errors import MissingToolError, UsageError
from edgepack.foundry.compile.plan import cmake_variables
from edgepack.foundry.releases.registry import RELEASE
from edgepack.foundry.toolchains.choose import choose
from edgepack.plugins.context import HostContext
from edgepack.records.target import Platform

pytestmark = pytest.mark.tools("zig")

LINUX = Platform(os="linux", arch="x86_64", glibc="2.28")
ARM = Platform(os="linux", arch="aarch64", glibc="2.28")


def without_zig(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None)


def test_zig_is_missing(context: HostContext, monkeypatch: pytest.MonkeyPatch) -> None:
    without_zig(monkeypatch)
    with pytest.raises(MissingToolError, match="zig") as caught:
        choose(LINUX, context=context)
    assert "pip install 'edgepack[build]'" in str(caught.value.hint)


def test_gcc_is_missing(context: HostContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGEPACK_TOOLCHAIN", "gcc")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match=r"g\+\+ is not installed"):
        choose(LINUX, context=context)


def test_gcc_for_another_architecture(
    context: HostContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EDGEPACK_TOOLCHAIN", "gcc")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    program = tmp_path / "aarch64-linux-gnu-g++"
    with pytest.raises(MissingToolError, match=r"aarch64-linux-gnu-g\+\+ is not installed") as caught:
        choose(ARM, context=context)
    assert "crossbuild-essential-arm64" in str(caught.value.hint)
    program.write_text("#!/bin/sh\necho 12.2.0\n")
    program.chmod(0o755)
    found = choose(ARM, context=context)
    assert found.identity == "gcc 12.2.0, aarch64-linux-gnu.2.28"
    assert found.command("C") == [str(tmp_path / "aarch64-linux-gnu-gcc")]
    assert found.cmake_variables(tmp_path)["CMAKE_SYSTEM_PROCESSOR"] == "aarch64"


def test_zig_for_another_architecture(
    context: HostContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    variables = choose(ARM, context=context).cmake_variables(tmp_path)
    assert variables["CMAKE_SYSTEM_NAME"] == "Linux" and variables["HAS_ARM64_BFLOAT16"] == "ON"
    assert "-target aarch64-linux-gnu.2.28" in Path(variables["CMAKE_CXX_COMPILER"]).read_text()


def test_a_toolchain_that_is_not_known(context: HostContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEPACK_TOOLCHAIN", "msvc")
    with pytest.raises(UsageError, match="msvc"):
        choose(LINUX, context=context)


def test_a_platform_that_cannot_be_built_for(context: HostContext) -> None:
    with pytest.raises(UsageError, match="made for linux on ppc64le"):
        choose(Platform(os="linux", arch="ppc64le"), context=context)


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed")
def test_zig_builds_for_the_target_s_glibc(context: HostContext) -> None:
    toolchain = choose(LINUX, context=context)
    assert toolchain.identity == f"zig {toolchain.version}, x86_64-linux-gnu.2.28"
    assert "-D__GLIBC_MINOR__=28" in toolchain.command("CXX")
    newer = choose(LINUX, glibc="2.31", context=context)
    assert "-D__GLIBC_MINOR__=31" in newer.command("C")
    assert newer.identity != toolchain.identity


def test_kinds_and_features() -> None:
    settings = RELEASE.build_settings("x86_64-linux-gnu.2.28")
    minimal = cmake_variables(settings, "minimal", ())
    assert minimal["onnxruntime_MINIMAL_BUILD"] == "ON" and minimal["onnxruntime_DISABLE_ML_OPS"] == "ON"
    assert cmake_variables(settings, "minimal", ("ml",))["onnxruntime_DISABLE_ML_OPS"] == "OFF"
    assert cmake_variables(settings, "minimal-extended", ())["onnxruntime_EXTENDED_MINIMAL_BUILD"] == "ON"
    with pytest.raises(UsageError, match="tiny"):
        cmake_variables(settings, "tiny", ())
