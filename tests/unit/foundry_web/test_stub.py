"""Functions that are not kept trap; the others do what they did."""

from __future__ import annotations

import pytest
from tests.unit.foundry_web.conftest import Run
from tests.unit.foundry_web.modules import custom, module, plus

from edgepack.foundry.web.binary import WasmError, bodies, sections
from edgepack.foundry.web.stub import TRAP, stub_wasm

CALLS = [("f", 1), ("g", 1), ("h", 1)]


def three() -> bytes:
    # Index 0 is imported: x * 2.
    code = [plus(1, calls=0), plus(10, calls=1), plus(40)]
    return module(code, {"f": 1, "g": 2, "h": 3}, imported=["outside"])


def test_the_module_does_what_it_says_before(run: Run) -> None:
    assert run(three(), CALLS)["results"] == [3, 13, 41]


def test_kept_functions_work_and_the_others_trap(run: Run) -> None:
    made = stub_wasm(three(), {0, 1})
    assert run(made.module, CALLS)["results"] == [3, 13, "RuntimeError: unreachable"]
    assert (made.kept, made.functions) == (2, 3)
    made = stub_wasm(three(), {1, 2})
    unreachable = "RuntimeError: unreachable"
    assert run(made.module, CALLS)["results"] == [unreachable, unreachable, 41], "g calls f, which is gone"


def test_all_kept_is_the_same_module() -> None:
    assert stub_wasm(three(), range(3)).module == three()


def test_what_is_gone_takes_three_bytes() -> None:
    made = stub_wasm(three(), ())
    assert bodies(sections(made.module)) == [TRAP] * 3
    assert len(made.module) == len(three()) - sum(len(body) - 3 for body in bodies(sections(three())))


def test_a_function_that_is_no_longer_than_a_trap_stays() -> None:
    tiny = bytes([0, 0x0B])
    made = stub_wasm(module([tiny, plus(1)], {}), ())
    assert bodies(sections(made.module)) == [tiny, TRAP]


def test_what_describes_the_code_goes_with_it() -> None:
    extra = [
        custom(".debug_info", b"x"),
        custom("sourceMappingURL", b"y"),
        custom("name", b"\0\0"),
        custom("mine"),
    ]
    made = stub_wasm(module([plus(1)], {}, extra=extra), ())
    assert [part.name for part in sections(made.module) if part.id == 0] == ["name", "mine"]


def test_a_function_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="there is no function 3: the module has 3"):
        stub_wasm(three(), {1, 3})
    with pytest.raises(WasmError):
        stub_wasm(b"no module", ())
