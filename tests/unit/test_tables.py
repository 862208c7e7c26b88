"""Tables: text is whole and as it is, numbers stand to the right in one piece."""

import io

from rich.console import Console
from rich.table import Table

from edgepack.tables import Number, add_row, megabytes, table


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
        " name                            bytes",
        " ids [batch, sequence] :smile:   1,234",
        " b                                   5",
    ]


def test_what_is_too_wide_is_broken_and_never_cut() -> None:
    made = table("name", Number("bytes"))
    add_row(made, "n" * 100, "123,456,789")
    text = "".join(printed(made, 40))
    assert text.count("n") == 101 and "123,456,789" in text


def test_without_heads() -> None:
    made = table("", "")
    add_row(made, "a", "b")
    assert printed(made, 80) == [" a   b"]


def test_megabytes_have_as_many_digits_as_say_something() -> None:
    assert [megabytes(size) for size in (0, 1234, 99_999, 100_000, 1_234_567_890)] == [
        "0.0000",
        "0.0012",
        "0.1000",
        "0.10",
        "1,234.57",
    ]
