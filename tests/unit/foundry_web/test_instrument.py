"""An instrumented module says which of its functions were entered, and does what it did."""

from __future__ import annotations

import pytest
from tests.unit.foundry_web.conftest import Run
from tests.unit.foundry_web.modules import END, custom, module, plus

from edgepack.foundry.web.binary import GLOBAL, Section, WasmError, u32
from edgepack.foundry.web.instrument import PREFIX, entered, instrument, union_of

MANY = 130


def many(extra: tuple[Section, ...] = ()) -> bytes:
    """Function n gives x + n % 64; the last calls the one before it. Two more than two words of bits hold."""
    code = [plus(number % 64) for number in range(MANY - 1)] + [plus(0, calls=MANY - 1)]
    exports = {f"f{number}": number + 1 for number in range(MANY)}
    return module(code, exports, imported=["outside"], extra=extra)


def profile(run: Run, made: bytes, *functions: int) -> frozenset[int]:
    answer = run(made, [(f"f{number}", 5) for number in functions])
    expected = [5 + (MANY - 2) % 64 if number == MANY - 1 else 5 + number % 64 for number in functions]
    assert answer["results"] == expected, "it does what it did"
    words = answer["words"]
    assert isinstance(words, dict)
    return entered({int(name.removeprefix(PREFIX)): int(word) for name, word in words.items()})


def test_nothing_is_entered_before_it_is_called(run: Run) -> None:
    assert profile(run, instrument(many())) == frozenset()


@pytest.mark.parametrize("functions", [(0,), (62, 63), (64, 65, 127, 128), tuple(range(MANY - 1))], ids=str)
def test_what_is_called_is_entered(run: Run, functions: tuple[int, ...]) -> None:
    assert profile(run, instrument(many()), *functions) == frozenset(functions)


def test_what_a_function_calls_is_entered_too(run: Run) -> None:
    assert profile(run, instrument(many()), MANY - 1) == {MANY - 1, MANY - 2}


def test_globals_that_are_there_keep_their_places(run: Run) -> None:
    # A global of its own, 7, which the only function gives back.
    own = Section(id=GLOBAL, content=u32(1) + bytes([0x7F, 1, 0x41, 7, END]))
    made = module([bytes([0, 0x23, 0, END])], {"f": 0})
    # Globals stand before exports.
    header, rest = made[: made.index(bytes([7]) + u32(5))], made[made.index(bytes([7]) + u32(5)) :]
    made = header + bytes([own.id]) + u32(len(own.content)) + own.content + rest
    answer = run(instrument(made), [("f", 0)])
    assert answer == {"results": [7], "words": {f"{PREFIX}0": "1"}}


def test_custom_sections_may_stand_anywhere(run: Run) -> None:
    assert profile(run, instrument(many((custom("a"), custom("b", b"x")))), 3) == {3}


def test_a_module_without_code_stays_without(run: Run) -> None:
    assert run(instrument(module([], {})), [])["words"] == {}


def test_a_local_variable_of_a_strange_type_is_refused() -> None:
    with pytest.raises(WasmError, match="0x64"):
        instrument(module([bytes([1, 1, 0x64, 0, END])], {}))


def test_profiles_are_joined() -> None:
    assert union_of([frozenset({1}), frozenset({2, 3}), frozenset()]) == {1, 2, 3}
    assert entered({0: 1 << 63, 2: 5}) == {63, 128, 130}
