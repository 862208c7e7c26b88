"""Published vulnerabilities against the record of a library's link."""

from edgepack.foundry.explain.weaknesses import LINKED, NOT_COMPILED, NOT_KNOWN, NOT_LINKED, weaknesses_of
from edgepack.foundry.link.composition import Composition, Member

CHECKER = "onnx/onnx/onnx/checker.cc"
GATHER = "onnxruntime_providers/onnxruntime/onnxruntime/core/providers/cpu/tensor/gather.cc"


def said(*members: str, version: str = "1.21.0") -> dict[str, tuple[str, tuple[str, ...]]]:
    composition = Composition(
        sha256="0" * 64,
        version=version,
        kind="minimal",
        toolchain="zig",
        members=tuple(Member(name=name, sections={".text": 1}) for name in members),
        steps={},
    )
    return {each.id: (each.code, each.objects) for each in weaknesses_of(composition)}


def test_the_record_says_what_was_linked() -> None:
    with_checker, with_gather = said(CHECKER), said(GATHER)
    path, indices = "CVE-2026-27489", "microsoft/onnxruntime#27444"
    assert with_checker[path] == (LINKED, (CHECKER,)) and with_checker[indices] == (NOT_LINKED, ())
    assert with_gather[path] == (NOT_LINKED, ()) and with_gather[indices] == (LINKED, (GATHER,))


def test_code_that_no_runtime_has_and_what_nobody_knows() -> None:
    found = said()
    assert found["CVE-2025-51480"][0] == NOT_COMPILED, "Python's"
    assert found["CVE-2026-14647"][0] == NOT_KNOWN
    assert {code for code, _ in found.values()} == {NOT_COMPILED, NOT_KNOWN, NOT_LINKED}


def test_another_release_s_are_not_this_one_s() -> None:
    assert said(CHECKER, version="1.31.1") == {}
