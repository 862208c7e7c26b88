"""Model cards of strangers: read in time that grows with their length, and never an unexpected error."""

import os
from pathlib import Path

import pytest

from edgepack.models.read.card import ModelCard, read_card
from edgepack.models.read.model_folder import ModelFolder


def card(folder: Path, text: str) -> ModelCard:
    (folder / "README.md").write_text(text, encoding="utf-8")
    return read_card(ModelFolder(directory=folder))


def test_what_is_read_of_a_card(tmp_path: Path) -> None:
    found = card(
        tmp_path,
        "---\nlicense:  apache-2.0   # a comment\nbase_model:\n- a/b\n- 'c/d'\ntags: [x, \"y\"]\nother:\n---\n"
        "Pooling({'word_embedding_dimension': 8, 'pooling_mode_cls_token': True, 'pooling_mode_mean_tokens': False})",
    )
    assert found == ModelCard(license="Apache-2.0", bases=("a/b", "c/d"), tags=("x", "y"), pooling="cls")


@pytest.mark.parametrize(
    "text",
    [
        "Pooling({" * 1_000_000,
        f"---\nlicense: a{' ' * 5_000_000}b\n---\n",
        f"---\n{''.join(f'k{each}:{chr(10)}' for each in range(500_000))}---\n",
    ],
    ids=["what is printed", "spaces", "fields"],
)
def test_a_long_card_takes_no_longer_than_it_is_long(tmp_path: Path, text: str) -> None:
    """By the square, each would take hours."""
    assert card(tmp_path, text).pooling is None


@pytest.mark.parametrize(
    "said",
    [
        "1, 2",
        "1: 2",
        "b'a': 1",
        "[1]: 2",
        "[]",
        "-" * 3000 + "1",
        "1: " + "1+" * 1900 + "1",
        "not " * 900 + "1",
    ],
)
def test_what_is_printed_as_no_module_is(tmp_path: Path, said: str) -> None:
    assert card(tmp_path, f"Pooling({{{said}}})") == ModelCard()


def test_a_card_that_is_none(tmp_path: Path) -> None:
    folder = ModelFolder(directory=tmp_path)
    assert read_card(folder) == ModelCard()
    os.mkfifo(tmp_path / "README.md")
    assert read_card(folder) == ModelCard(), "nobody writes into it"
    (tmp_path / "README.md").unlink()
    (tmp_path / "README.md").symlink_to("/dev/zero")
    assert read_card(folder) == ModelCard(), "it has no end"
