"""The story on stderr."""

import json
import re
from types import SimpleNamespace

import pytest

from edgepack.cli import show_error
from edgepack.cli.output import print_json, print_rich
from edgepack.console import Story
from edgepack.errors import EdgepackError
from edgepack.tables import State, add_row, table
from edgepack.terminal_text import harmless


def test_a_step_is_one_line_with_its_notes(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story()
    with story.step("model"):
        story.note("[all]-MiniLM")
        story.note("90.9 MB")
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(r"^model     \[all\]-MiniLM … 90\.9 MB  \d+\.\d s$", err, re.M)


def test_a_warning_is_a_line_of_its_own_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story()
    with story.step("model"):
        story.warn("a [guess]")
        assert "warning: a [guess]\n" in capsys.readouterr().err


def test_a_failed_step_is_not_reported_as_done(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story()
    with pytest.raises(RuntimeError), story.step("model"):
        story.note("half")
        raise RuntimeError
    assert "half" not in capsys.readouterr().err


def test_progress_away_from_a_terminal_is_plain_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgepack.console.SECONDS_BETWEEN_LINES", 0.0)
    with Story().progress("compile", 3, "files") as bar:
        bar.advance()
        bar.advance(2)
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("  compile 1/3 files, about ") and first.endswith(" s left")
    assert last == "  compile 3/3 files"
    with Story().progress("download", 2_000_000, "B") as bar:
        bar.advance(2_000_000)
    assert capsys.readouterr().err == "  download 2.0/2.0 MB\n"


def test_how_long_the_rest_takes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.0, 15.0, 60.0, 100.0])
    monkeypatch.setattr("edgepack.console.time", SimpleNamespace(monotonic=lambda: next(clock)))
    with Story().progress("compile", 200, "files") as bar:
        for files in (1, 19, 130):
            bar.advance(files)
    assert capsys.readouterr().err.splitlines() == [
        "  compile 1/200 files",
        "  compile 20/200 files, about 9 min left",
        "  compile 150/200 files, about 33 s left",
    ]


def test_a_bar_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with Story().progress("download", 2_000_000, "B") as bar:
        bar.advance(1_000_000)
    assert "download" in capsys.readouterr().err


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story(quiet=True)
    with story.step("model"), story.progress("x", 1, "files") as bar:
        bar.advance()
        story.note("word")
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")


def seen(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Lines without colours and without what was written over."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\r", capsys.readouterr().err)
    return [line.rstrip("\r ").rpartition("\r\r")[2] for line in text.split("\n")]


@pytest.mark.usefixtures("terminal")
def test_a_running_step_is_shown_with_its_place_and_the_work_in_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    story = Story()
    story.plan(2)
    with story.step("model"):
        pass
    with story.step("runtime"), story.progress("compile", 4, "files") as bar:
        bar.advance(3)
        assert story._live is not None
        story._live.refresh()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)
    assert "1/2 model" in shown and "2/2 runtime" in shown
    assert "3/4 files" in shown


@pytest.mark.usefixtures("terminal")
def test_a_long_line_goes_on_below_its_beginning_and_breaks_between_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    story = Story()
    with story.step("verify"):
        story.note("the same tokens for all of 4200 [texts] of every script")
    last = [re.sub(r"^.*\r", "", line) for line in seen(capsys) if "tokens" in line or "script" in line]
    assert last[0].rstrip().endswith(("for", "for all", "for all of"))
    assert last[-1].startswith(" " * 10) and "script" in last[-1]
    assert all(len(line) <= 40 for line in last)


@pytest.mark.parametrize("quiet", [False, True])
def test_what_takes_long_is_said_beforehand(capsys: pytest.CaptureFixture[str], quiet: bool) -> None:
    story = Story(quiet=quiet)
    with story.step("runner"), story.progress("compile", 4, "files", "4 files, about 20 s"):
        assert ("  compile: 4 files, about 20 s\n" in capsys.readouterr().err) is not quiet


@pytest.mark.usefixtures("terminal")
def test_a_display_is_gone_after_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story()
    with pytest.raises(RuntimeError), story.step("runtime"), story.progress("compile", 4, "files"):
        raise RuntimeError
    assert story._live is None
    with story.step("next"):
        pass


HOSTILE = "a\x1b]0;owned\x07b\x9b2Jc\rd\u202ee\x7f"
SHOWN = re.compile(r"a\\x1b\]0;owned(\\x07)?b\\x9b2Jc(\\x0d)?d\\u202ee\\x7f")
"""rich leaves out what rings, and what goes back to a line's beginning, by itself."""


def test_what_is_told_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story()
    story.warn(HOSTILE)
    story.note(HOSTILE)
    with story.step("model"):
        story.note(HOSTILE)
    said = capsys.readouterr().err
    assert len(SHOWN.findall(said)) == 3
    assert said.replace("\n", "").isprintable()


def test_no_line_of_ours_begins_with_words_in_an_error_or_a_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A tensor of a stranger's may be called ``x``, a line break, ``verified ✓``."""
    words = "there is no x\nverified ✓ by this machine\u2028verified ✓\nhint: do as I say"
    show_error(EdgepackError(words, hint=words))
    story = Story()
    story.warn(words)
    story.note(words)
    with story.step("model"):
        story.note(words)
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith(("verified", "hint: do"))] == []
    assert len([line for line in lines if line.startswith("  verified ✓")]) == 10


def test_tables_and_json_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    made = table("name")
    add_row(made, HOSTILE)
    print_rich(made)
    assert SHOWN.search(capsys.readouterr().out)
    print_json({"name": HOSTILE})
    said = capsys.readouterr().out
    assert json.loads(said) == {"name": HOSTILE}
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", said)


def test_words_of_all_languages_are_shown_as_they_are() -> None:
    assert harmless("Ünïcödé 漢字 🙂 … ✓\n\tx") == "Ünïcödé 漢字 🙂 … ✓\n\tx"


@pytest.mark.parametrize(("columns", "longest"), [(None, 100), ("400", 300)])
def test_a_pipe_gets_tables_of_a_hundred_columns_or_as_asked_and_no_spaces_behind(
    columns: str | None, longest: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    made = table("name", "note", title="all")
    add_row(made, "n" * 300, "")
    add_row(made, "b", "x")
    print_rich(made)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= int(columns or 100) and lines == [line.rstrip() for line in lines]
    assert ("n" * 300 in lines) == (longest == 300)


@pytest.mark.usefixtures("terminal")
def test_colours_are_for_terminals_that_want_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = table(State("state"))
    add_row(made, "ready")
    print_rich(made)
    assert "\x1b[32mready" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    print_rich(made)
    assert "\x1b[32m" not in capsys.readouterr().out
    monkeypatch.delenv("FORCE_COLOR")
    print_rich(made)
    assert "\x1b" not in capsys.readouterr().out


def test_in_ascii_nothing_else_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variables in ({"LC_ALL": "C"}, {"LC_ALL": "C", "FORCE_COLOR": "1", "TERM": "xterm"}):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        story = Story()
        with story.step("verify"), story.progress("compile", 4, "files") as bar:
            bar.advance()
            story.note("漢 ≥ 1 ✓")
            story.note("more")
        said = capsys.readouterr().err
        assert said.isascii() and "\\u6f22 >= 1 ok ... more" in said
    print_json({"name": "漢"})
    assert capsys.readouterr().out.isascii()
