"""Where symbols are for WebAssembly: its own index first, then that of x86-64."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from edgepack.foundry.link.demand import Index
from edgepack.foundry.link.index import either, load_index
from edgepack.foundry.releases.known import RELEASE


def test_what_the_first_does_not_know_the_second_is_asked() -> None:
    own = Index(definers=lambda symbol: ["a"] if symbol == "f" else [], edges={"a": ["b"]})
    other = Index(definers=lambda symbol: ["x"], edges={"a": ["x"], "x": ["y"]})
    found = either(own, other)
    assert (found.definers("f"), found.definers("g")) == (["a"], ["x"])
    assert found.reach(["a", "x"]) == {"a", "b", "x", "y"}


def test_the_index_that_is_shipped_knows_the_functions_for_javascript_and_other_operators(
    tmp_path: Path,
) -> None:
    found = load_index(RELEASE, "minimal", "wasm32")
    assert any(
        "session_options.cc" in unit or "c_api" in unit
        for unit in found.definers("_ZN7OrtApis20CreateSessionOptionsEPP17OrtSessionOptions")
    ), "what JavaScript calls"
    kernel = "MlasSgemmKernelAdd"
    assert [unit.rsplit("lib/", 1)[1] for unit in found.definers(kernel)] == [
        "wasm_simd/SgemmKernelWasmSimd.cpp"
    ]
    assert load_index(RELEASE, "minimal", "x86_64").definers(kernel) != found.definers(kernel)
    assert load_index(replace(RELEASE, data=tmp_path), "minimal", "wasm32").definers("f") == ()
