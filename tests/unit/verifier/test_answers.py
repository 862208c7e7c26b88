"""What a bundle's program writes is a stranger's word: read in a bounded time, refused in words, never a false line of ours."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.fuzz.answers import answered, bundle_with

from edgepack.errors import ProofError
from edgepack.records.bundle import Bundle
from edgepack.verifier.confined import answers
from edgepack.verifier.confined.needs import what_it_needs
from edgepack.verifier.confined.program import Ended
from edgepack.verifier.confined.sandbox import View
from edgepack.verifier.run import BundleRunner, said_by_program

HUGE, DEEP = "1" + "0" * 400, "[" * 100_000

Ask = Callable[[BundleRunner, Bundle], Sequence[Any]]
ASKED: dict[str, tuple[Ask, dict[str, Any], list[str]]] = {
    "vectors": (
        lambda runner, bundle: runner.vectors(bundle, ["a"]),
        {},
        [f'{{"embedding": [{HUGE}, 1]}}', f'{{"embedding": {DEEP}', "[1]", "null", '{"embedding": [1]}'],
    ),
    "tokens": (
        lambda runner, bundle: runner.tokens(bundle, ["a"]),
        {},
        [DEEP, "1", '{"a": 1}', '"ab"', "[1.5]", "[true]", "[1]\n[2]"],
    ),
    "scores": (
        lambda runner, bundle: runner.scores(bundle, ["a"]),
        {"task": "rank"},
        [f'{{"score": {HUGE}}}', DEEP, "{}", "[]", '{"score": 1}\n{"score": 1}'],
    ),
    "tokens of pairs": (
        lambda runner, bundle: runner.pair_tokens(bundle, [("a", "b")]),
        {},
        [DEEP, "[1, 2]", '"ab"', '{"a": 1, "b": 2}', "[[1], [0]]\n[[1], [0]]", ""],
    ),
    "outputs": (
        lambda runner, bundle: runner.outputs(bundle, ["a"], query=False),
        {"outputs": {"sparse": {}, "multi_vector": {}}},
        [
            DEEP,
            "[1]",
            "null",
            '{"sparse": {"indices": [1e999], "values": [1]}}',
            f'{{"sparse": {{"indices": [1], "values": [{HUGE}]}}}}',
            f'{{"multi_vector": [[{HUGE}]]}}',
            '{"multi_vector": [[1], [1, 2]]}',
        ],
    ),
}
CASES = [
    pytest.param(*case[:2], said, id=f"{what}-{said[:30]}")
    for what, case in ASKED.items()
    for said in case[2]
]


@pytest.mark.parametrize(("ask", "model", "said"), CASES)
def test_an_answer_of_another_kind_is_refused_in_words(ask: Ask, model: dict[str, Any], said: str) -> None:
    with pytest.raises(ProofError) as raised:
        ask(answered(said), bundle_with(**model))
    assert len(raised.value.message) < 400


def test_an_answer_longer_than_any_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pair of brackets would be 56 bytes here."""
    monkeypatch.setattr(answers, "LONGEST", 100)
    assert answers.read_answers("[1]\n", 1, list) == answers.read_answers("[1]", 1, list) == [[1]]
    with pytest.raises(answers.BadAnswer, match="a line of more than"):
        answers.read_answers(f"[{'[],' * 50}0]\n", 1, list)
    for said in ("", "1\n2\n", "1\n\n"):
        with pytest.raises(answers.BadAnswer):
            answers.read_answers(said, 1, list)


def test_an_answer_of_separators_in_a_label_is_one_line() -> None:
    label = "one\u2028two\x85three"
    bundle = bundle_with(task="classes", labels=[label])
    line = json.dumps({"scores": {label: 0.5}}, ensure_ascii=False)
    assert answered(line).scores(bundle, ["a"]) == [[0.5]]


@pytest.mark.parametrize(
    "message",
    [
        "a" * 1_000_000,
        "a.so." * 200_000,
        "/a" * 500_000,
        "/" + "a" * 5_000,
        "/a\0b not found",
        "/a /b" * 200_000,
    ],
    ids=lambda text: text[:6],
)
def test_messages_of_any_length_and_kind_are_looked_at(message: str) -> None:
    """4,000 letters took 100 seconds, and a name of 300 letters was an unexpected error."""
    ended = Ended(output="", messages="\n".join([message] * 200), code=1)
    bundle = Bundle(directory=Path("/nowhere/bundle"), manifest={})
    what_it_needs(ended, bundle, View())


def test_a_program_s_last_words_are_no_line_of_ours() -> None:
    said = said_by_program("error: no\nverified ✓\n\x1b[2J" + "x" * 10_000)
    assert "✓" not in said and "\x1b" not in said and len(said) < 2_000
