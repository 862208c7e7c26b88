"""Where symbols are for WebAssembly: its own index first, then that of x86-64."""

from dataclasses import replace
from pathlib import Path

from edgepack.foundry.link.index import load_index
from edgepack.foundry.releases.registry import RELEASE
from edgepack_web.foundry.toolchain import WEB_RELEASE


def test_the_index_that_is_shipped_knows_the_functions_for_javascript_and_other_operators(
    tmp_path: Path,
) -> None:
    found = load_index(WEB_RELEASE, "minimal", "wasm32")
    assert any(
        "session_options.cc" in unit or "c_api" in unit
        for unit in found.definers("_ZN7OrtApis20CreateSessionOptionsEPP17OrtSessionOptions")
    ), "what JavaScript calls"
    kernel = "MlasSgemmKernelAdd"
    assert [unit.rsplit("lib/", 1)[1] for unit in found.definers(kernel)] == [
        "wasm_simd/SgemmKernelWasmSimd.cpp"
    ]
    assert load_index(WEB_RELEASE, "minimal", "x86_64").definers(kernel) != found.definers(kernel)
    assert load_index(replace(RELEASE, data=(tmp_path,)), "minimal", "wasm32").definers("f") == ()


def test_what_its_own_index_does_not_know_the_one_for_x86_64_may() -> None:
    own, other = WEB_RELEASE.index_files("minimal", "wasm32")
    assert (own.name, other.name) == ("symbols-minimal-wasm32.json.zst", "symbols-minimal.json.zst")
    assert len(WEB_RELEASE.index_files("minimal", "aarch64")) == 1


def test_how_it_is_compiled_for_webassembly_is_the_plugins_own() -> None:
    own, others = (release.build_settings("wasm32") for release in (WEB_RELEASE, RELEASE))
    assert "cxx_runtime" in own["units"] and "cxx_runtime" not in others["units"]
    assert WEB_RELEASE.build_settings("x86_64-linux-gnu.2.28") == others
    assert WEB_RELEASE.catalogue == RELEASE.catalogue
