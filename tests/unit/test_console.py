"""The story on stderr."""

from __future__ import annotations

import pytest

from edgepack.console import Story


def test_a_step_is_one_line_with_its_notes(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story()
    with story.step("model"):
        story.note("[all]-MiniLM")
        story.note("90.9 MB")
    out, err = capsys.readouterr()
    assert out == ""
    assert "model     [all]-MiniLM … 90.9 MB  0.0 s" in err


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
    assert capsys.readouterr().err.splitlines() == ["  compile 1 files/3 files", "  compile 3 files/3 files"]


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
    story.warn("nothing")
    assert capsys.readouterr() == ("", "")
