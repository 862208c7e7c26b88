"""A tokenizer.json with which the tokenizers library gives up in a way that is no ``Exception``."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.tiny import write_json

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.find.source import ingest
from edgepack.models.ort.processor_time import VARIABLE
from edgepack.models.read import panics
from edgepack.models.read.panics import PARALLEL, panics_reported
from edgepack.models.reference import reference_vectors
from edgepack.plugins.context import HostContext
from edgepack.runner.frozen.tokenizer import HuggingFaceTokenizer, TokenizerError
from edgepack.runner.tokenizer.compile import compile_tokenizer
from edgepack.testing.model import write_model

REGEX = {"Regex": "^(([a-zA-Z .])+.?)+[0-9]$"}
SPLIT = {"type": "Split", "pattern": REGEX, "behavior": "Isolated", "invert": False}
REPLACE = {"type": "Replace", "pattern": REGEX, "content": ""}
TEXT = "a man is eating food and a woman is playing the guitar"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


def spoil(folder: Path, **parts: Any) -> str:
    """The model's tokenizer with other parts."""
    document = json.loads((folder / "tokenizer.json").read_text()) | parts
    write_json(folder / "tokenizer.json", document)
    return json.dumps(document | {"truncation": None, "padding": None})


@pytest.mark.parametrize("parts", [{"pre_tokenizer": SPLIT}, {"normalizer": REPLACE}], ids=str)
def test_a_regular_expression_that_takes_too_long(
    model: Path, context: HostContext, parts: dict[str, Any]
) -> None:
    spoil(model, **parts)
    source = ingest(str(model), context=context)
    with pytest.raises(UnsupportedModelError, match="gave up on the model's tokenizer") as caught:
        reference_vectors(source, [TEXT], context=context)
    assert "regular expression" in (caught.value.hint or "")


def test_such_a_tokenizer_is_not_compiled(model: Path) -> None:
    document = json.loads(spoil(model))
    document["added_tokens"] = [
        {"id": 0, "content": TEXT, "special": False, "normalized": True}
        | dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    ]
    document["normalizer"] = REPLACE
    with pytest.raises(UnsupportedModelError):
        compile_tokenizer(json.dumps(document))


@pytest.mark.slow
@pytest.mark.tools("python")
def test_the_command_says_it_in_two_lines(model: Path, tmp_path: Path) -> None:
    spoil(model, pre_tokenizer=SPLIT)
    command = [sys.executable, "-m", "edgepack", "bundle", "--model", str(model), "--target", "linux-x86"]
    done = subprocess.run(
        [*command, "--output", str(tmp_path / "dist")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == UnsupportedModelError.exit_code, done.stderr
    error, hint = done.stderr.strip().splitlines()[-2:]
    assert error.startswith("error: the tokenizers library gave up") and hint.startswith("hint: ")
    assert "Traceback (most recent call last)" not in done.stderr
    assert not list((tmp_path / "dist").glob("*"))


@pytest.mark.tools("python")
def test_one_that_tries_too_few_ways_to_be_given_up_is_ended(model: Path) -> None:
    """Each match stays below the library's limit, and takes a tenth of a second or more: 4,200 texts took days."""
    slow = "[^\\n]{0,50}" * 4 + "(?<=\\p{Lu})(?<=\\p{Ll})"
    split = {"type": "Split", "pattern": {"Regex": slow}, "behavior": "Isolated", "invert": False}
    spoil(model, pre_tokenizer={"type": "Sequence", "pretokenizers": [split] * 99})
    done = subprocess.run(
        [sys.executable, "-m", "edgepack", "quantize", str(model), "--output", str(model.with_name("out"))],
        env={**os.environ, VARIABLE: "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in (ModelError.exit_code, -9)  # at a call's end, or within it
    assert "error: tokenizer.json computes for longer than a model of its size\nhint: " in done.stderr


def test_the_time_of_many_texts_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PARALLEL, raising=False)
    with panics_reported(letters=10**9):
        assert os.environ[PARALLEL] == "false"
    assert PARALLEL not in os.environ and panics._allowed[0].left > 20_000
    panics.allow_tokenizer()
    assert panics._allowed[0].left <= 600


@pytest.mark.parametrize("before", [None, "true"])
def test_of_two_threads_the_last_leaves_the_environment_as_the_first_found_it(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PARALLEL, raising=False)
    if before is not None:
        monkeypatch.setenv(PARALLEL, before)
    one, other = panics._in_this_thread(), panics._in_this_thread()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert os.environ[PARALLEL] == "false"
    other.__exit__(None, None, None)
    assert os.environ.get(PARALLEL) == before


def test_other_exceptions_stay_what_they_are() -> None:
    with pytest.raises(KeyboardInterrupt), panics_reported():
        raise KeyboardInterrupt


@pytest.mark.parametrize("parts", [{"pre_tokenizer": SPLIT}, {"normalizer": REPLACE}], ids=str)
def test_a_bundle_s_own_program_says_it_in_words(model: Path, parts: dict[str, Any]) -> None:
    """The panic passed `except Exception`, and was a traceback with exit code 1."""
    spoil(model, **parts)
    tokenizer = HuggingFaceTokenizer(str(model / "tokenizer.json"))
    for second in (None, TEXT):
        with pytest.raises(TokenizerError, match="gives up on") as caught:
            tokenizer.encode(TEXT, second, 32)
        assert caught.value.code == 4 and caught.value.hint
