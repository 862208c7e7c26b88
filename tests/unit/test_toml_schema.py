"""Data read into dataclasses: what is right has the types of its fields, what is wrong is said with its place."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from edgepack.toml_schema import Malformed, check_value, keys_of, load_toml, parse_toml, read_table


@dataclass(frozen=True, kw_only=True)
class Wheel:
    size: float
    kind: Literal["front", "back"] = "front"


@dataclass(frozen=True, kw_only=True)
class Cart:
    name: str
    wheels: tuple[Wheel, ...] = ()
    axle: Wheel | None = None
    load: int = 0
    old: bool = False
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rest: Mapping[str, Any] = field(default_factory=dict)


WHOLE = """
name = "cart"
load = 3
old = true
wheels = [{ size = 1 }, { size = 1.5, kind = "back" }]
rest = { anything = [1, "x"] }
words = { a = ["b", "c"] }
[axle]
size = 2
"""


def test_a_whole_document_is_read() -> None:
    assert read_table(Cart, parse_toml(WHOLE)) == Cart(
        name="cart",
        wheels=(Wheel(size=1.0), Wheel(size=1.5, kind="back")),
        axle=Wheel(size=2.0),
        load=3,
        old=True,
        words={"a": ("b", "c")},
        rest={"anything": [1, "x"]},
    )
    assert isinstance(read_table(Wheel, {"size": 1}).size, float)


def test_what_is_not_there_has_its_default() -> None:
    assert read_table(Cart, {"name": "x"}) == Cart(name="x")
    assert keys_of(Wheel) == ("size", "kind")


@pytest.mark.parametrize(
    ("table", "said", "hint"),
    [
        ({}, "name is missing", None),
        (
            {"name": "x", "wheel": 1},
            "unknown key wheel (did you mean wheels?)",
            "known here: name, wheels, axle, load, old, words, rest",
        ),
        ({"name": 1}, "name is 1, expected a string", None),
        ({"name": "x", "load": True}, "load is True, expected an integer", None),
        ({"name": "x", "load": 1.0}, "load is 1.0, expected an integer", None),
        ({"name": "x", "old": 1}, "old is 1, expected true or false", None),
        ({"name": "x", "wheels": {}}, "wheels is {}, expected a list", None),
        ({"name": "x", "wheels": [1]}, "wheels[0] is 1, expected a table", None),
        ({"name": "x", "wheels": [{"size": 1}, {}]}, "wheels[1].size is missing", None),
        ({"name": "x", "axle": 1}, "axle is 1, expected a table", None),
        (
            {"name": "x", "axle": {"sise": 1}},
            "unknown key [axle] sise (did you mean size?)",
            "known here: size, kind",
        ),
        ({"name": "x", "axle": {"size": "1"}}, "axle.size is '1', expected a number", None),
        ({"name": "x", "axle": {"size": True}}, "axle.size is True, expected a number", None),
        (
            {"name": "x", "axle": {"size": 1, "kind": "bakc"}},
            "axle.kind is 'bakc' (did you mean back?)",
            "one of: front, back",
        ),
        ({"name": "x", "words": {"a": "b"}}, "words.a is 'b', expected a list", None),
        ({"name": "x", "words": {"a": ["b", 1]}}, "words.a[1] is 1, expected a string", None),
        ({"name": "x", "words": []}, "words is [], expected a table", None),
    ],
)
def test_what_is_wrong_is_said_with_its_place(table: dict[str, Any], said: str, hint: str | None) -> None:
    with pytest.raises(Malformed) as caught:
        read_table(Cart, table)
    assert (str(caught.value), caught.value.hint) == (said, hint)


def test_a_table_in_a_file_has_a_place_of_its_own() -> None:
    with pytest.raises(Malformed, match=r"^unknown key \[parts\.eigen\] nam \(did you mean name\?\)$"):
        read_table(Cart, {"nam": 1}, where="parts.eigen")


def test_values_may_be_made_in_another_way() -> None:
    def kilos(value: object) -> int:
        if not isinstance(value, str):
            raise Malformed(f"is {value!r}, expected a weight", hint='e.g. "3 kg"')
        return int(value.removesuffix(" kg"))

    how = {"load": kilos, "wheels.size": lambda value: float(check_value(str, value))}
    table: dict[str, Any] = {"name": "x", "load": "3 kg", "wheels": [{"size": "1.5"}]}
    assert read_table(Cart, table, how=how) == Cart(name="x", load=3, wheels=(Wheel(size=1.5),))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"load": 3}, "load is 3, expected a weight"),
        ({"load": "three kg"}, "load: invalid literal for int() with base 10: 'three'"),
        ({"wheels": [{"size": "1"}, {"size": 2}]}, "wheels[1].size is 2, expected a string"),
    ]
    for changes, said in wrong:
        with pytest.raises(Malformed) as caught:
            read_table(Cart, {**table, **changes}, how=how)
        assert str(caught.value) == said


def test_files_that_are_no_toml(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("a = ")
    with pytest.raises(Malformed, match="not valid TOML: Invalid value"):
        load_toml(tmp_path / "a.toml")
    (tmp_path / "a.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(Malformed, match="not UTF-8"):
        load_toml(tmp_path / "a.toml")
    with pytest.raises(FileNotFoundError):
        load_toml(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = " + "[" * 50_000, "nested too deeply"),
        ("a = " + "{a=" * 20_000, "nested too deeply"),
        ("a = " + "9" * 5_000, "4300 digits"),
        (".".join("a" * 50_000) + " = 1", "more parts than any"),
        ("a = 1\n" * 200_000, "no file of at most"),
    ],
    ids=["lists", "tables", "digits", "dots", "long"],
)
def test_toml_that_costs_too_much_to_read_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(Malformed, match=said):
        load_toml(tmp_path / "a.toml")


def test_a_pipe_is_no_toml_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.toml")
    with pytest.raises(Malformed, match="no file of at most"):
        load_toml(tmp_path / "a.toml")
