"""Whatever edgepack says to be well has a planted lie that must not be told so: sentences are found in the code, lies in tests/claims.toml."""

import tomllib
from collections import Counter

from tests.support.claims import claims, named_tests
from tests.support.house import ROOT

TABLE = tomllib.loads((ROOT / "tests/claims.toml").read_text(encoding="utf-8"))
START_OF_A_PAGE = "<div"


def test_every_claim_has_a_lie_or_a_reason() -> None:
    known = Counter(text for row in (*TABLE["claim"], *TABLE["plain"]) for text in row["says"])
    assert [text for text, times in known.items() if times > 1] == []
    found = {text: place for text, place in claims().items() if not text.startswith(START_OF_A_PAGE)}
    new = [f"{place}: {text!r}" for text, place in found.items() if text not in known]
    assert new == [], "add them to tests/claims.toml, each with a test in which it would be a lie"
    assert [text for text in known if text not in found] == [], "remove them from tests/claims.toml"


def test_every_lie_is_a_test() -> None:
    for row in TABLE["claim"]:
        assert row["lies"], row["says"]
        for lie in row["lies"]:
            file, _, name = lie.partition("::")
            assert name in named_tests(ROOT / file), lie


def test_every_other_sentence_has_a_reason() -> None:
    assert all(row["why"] for row in TABLE["plain"])
