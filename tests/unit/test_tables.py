"""Tables: text is whole and as it is, numbers stand to the right in one piece."""

import io

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from edgepack.tables import Number, State, add_row, blocks, column_megabytes, megabytes, table


def printed(made: Table, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(made)
    return [line.rstrip() for line in out.getvalue().splitlines() if line.strip(" ─")]


def test_cells_are_no_markup_and_numbers_stand_to_the_right() -> None:
    made = table("name", Number("bytes"), title="all [of] it")
    add_row(made, "ids [batch, sequence] :smile:", "1,234")
    add_row(made, "b", "5")
    lines = printed(made, 80)
    assert lines == [
        "all [of] it",
        "name                            bytes",
        "ids [batch, sequence] :smile:   1,234",
        "b                                   5",
    ]


def test_a_cell_of_several_lines_begins_no_row() -> None:
    made = table("operator", Number("nodes"))
    add_row(made, "Gelu\nverified ✓\u2028verified", "1")
    assert printed(made, 80)[1:] == ["Gelu verified ✓ verified       1"]


def test_what_is_too_wide_is_broken_and_never_cut() -> None:
    made = table("name", Number("bytes"))
    add_row(made, "n" * 100, "123,456,789")
    text = "".join(printed(made, 40))
    assert text.count("n") == 101 and "123,456,789" in text


def test_without_heads() -> None:
    made = table("", "")
    add_row(made, "a", "b")
    assert printed(made, 80) == ["a   b"]


def test_megabytes_have_as_many_digits_as_say_something() -> None:
    assert [megabytes(size) for size in (0, 1234, 99_999, 100_000, 1_234_567_890)] == [
        "0.0000",
        "0.0012",
        "0.1000",
        "0.10",
        "1,234.57",
    ]


def test_a_columns_megabytes_have_the_same_digits() -> None:
    assert [*map(column_megabytes, (23_062_144, 62_700, 7_379, 40))] == ["23.062", "0.063", "0.007", "0.000"]


def test_states_have_colours_and_other_words_none() -> None:
    made = table(State("state"), "summary")
    for state in ("ready", "missing zig", "broken: no", "✓", "none of them"):
        add_row(made, state, "ready")
    states, summaries = (
        [cell.style for cell in column.cells if isinstance(cell, Text)] for column in made.columns
    )
    assert states == ["green", "yellow", "red", "green", ""]
    assert set(summaries) == {""}


def test_tables_have_a_blank_line_around_them_and_texts_none() -> None:
    made = table("a")
    add_row(made, "1")
    out = io.StringIO()
    Console(file=out, width=20).print(blocks(Text("x"), Text("y"), made, made, Text("z")))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert lines == ["x", "y", "", "a", "─", "1", "", "a", "─", "1", "", "z"]


def test_where_the_terminal_knows_ascii_only_signs_are_spelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    made = table("name", State(""), title="… and")
    add_row(made, "≥ 0.9", "✓")
    out = io.StringIO()
    Console(file=out, width=40).print(made)
    assert out.getvalue().isascii()
    assert [line for line in printed(made, 40) if line.strip("-")] == [
        "... and",
        "name",
        ">= 0.9   ok",
    ]


def test_sentences_are_broken_before_names() -> None:
    made = table("target", State("state"), "best for", Number("MB"))
    add_row(made, "linux-x64-tensorrt", "ready", "any tokenizer, and Python code of your own", "1,234.56")
    assert printed(made, 52) == [
        "target               state   best for             MB",
        "linux-x64-tensorrt   ready   any            1,234.56",
        "                             tokenizer,",
        "                             and Python",
        "                             code of your",
        "                             own",
    ]
    assert all(len(line) <= 30 for line in printed(made, 30)), "where no name fits, names are broken, too"
    made = table("bundle", State("state"))
    add_row(made, "my-model:linux-x86-static", "failed: sentence-transformers/all-MiniLM-L6-v2 is none")
    assert printed(made, 52)[1].startswith("my-model:linux-x86-static   failed:"), (
        "its words are broken before a name"
    )


@pytest.mark.parametrize("width", [9, 40, 80])
def test_no_table_is_wider_than_its_room(width: int) -> None:
    made = table("a", "b", Number("c"))
    add_row(made, "one two three " * 9, "x" * 50, "1")
    lines = printed(made, width)
    assert max(map(len, lines)) <= width
    if width >= 40:
        assert "".join(lines).count("x") == 50
