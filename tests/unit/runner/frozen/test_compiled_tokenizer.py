"""The program in Python with a compiled tokenizer: what it does with tokenizers, without it."""

import json
import shutil
from pathlib import Path

import pytest
from tests.support.native import compile_tokens_library
from tests.support.sample_program import complaint, library_of, run_program

from edgepack.runner.freeze.sample_bundle import write_compiled_tokenizer, write_manifest
from edgepack.runner.frozen.base.bundle import Bundle
from edgepack.runner.frozen.base.errors import UsageError
from edgepack.runner.frozen.tokenizer.compiled import CompiledTokenizer
from edgepack.runner.frozen.tokenizer.hugging_face import HuggingFaceTokenizer
from edgepack.runner.frozen.tokenizer.open import open_tokenizer

pytestmark = pytest.mark.tools("c++", "python")

TEXTS = ("a cat sat on the mat", "", "the kitten", "Ünïcødé 日本語 \x00", "cats")


@pytest.fixture(scope="module")
def compiled_sample(frozen_sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample bundle with a compiled tokenizer; not to be changed."""
    folder = tmp_path_factory.mktemp("compiled")
    tokens_library = compile_tokens_library(folder / "libtokens.so")
    bundle = folder / "bundle"
    shutil.copytree(frozen_sample, bundle)
    library = library_of(bundle)
    write_compiled_tokenizer(bundle, tokens_library)
    write_manifest(bundle, library=library)
    return bundle


@pytest.fixture
def pair(frozen_sample: Path, compiled_sample: Path) -> tuple[HuggingFaceTokenizer, CompiledTokenizer]:
    theirs, ours = (
        open_tokenizer(Bundle(str(folder)), max_length=6, threads=1)
        for folder in (frozen_sample, compiled_sample)
    )
    assert isinstance(theirs, HuggingFaceTokenizer) and isinstance(ours, CompiledTokenizer)
    return theirs, ours


@pytest.mark.slow
def test_the_tokens_are_the_same(pair: tuple[HuggingFaceTokenizer, CompiledTokenizer]) -> None:
    theirs, ours = pair
    assert ours.encode(TEXTS) == theirs.encode(TEXTS)
    assert ours.special_tokens() == theirs.special_tokens() == ([2], [3])
    assert ours.pad_id == theirs.pad_id


@pytest.mark.parametrize("ids", [[5], [2, 5, 3], [4, 5, 6, 7]])
def test_ids_get_their_special_tokens(
    pair: tuple[HuggingFaceTokenizer, CompiledTokenizer], ids: list[int]
) -> None:
    theirs, ours = pair
    assert ours.with_special_tokens(ids) == theirs.with_special_tokens(ids)


@pytest.mark.parametrize("ids", [[], [-1], [12], [4, 5, 6, 7, 8]])
def test_ids_that_are_none_are_refused_in_the_same_words(
    pair: tuple[HuggingFaceTokenizer, CompiledTokenizer], ids: list[int]
) -> None:
    said = []
    for tokens in pair:
        with pytest.raises(UsageError) as caught:
            tokens.with_special_tokens(ids)
        said.append(caught.value.message)
    assert said[0] == said[1]


def test_the_output_is_the_same(frozen_sample: Path, compiled_sample: Path) -> None:
    for options in (["--out", "raw"], ["--jsonl"], ["--tokens", "--jsonl"]):
        lines = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS).encode()
        theirs, ours = (
            run_program(folder, *options, input=lines) for folder in (frozen_sample, compiled_sample)
        )
        assert ours.returncode == theirs.returncode == 0, ours.stderr
        assert ours.stdout == theirs.stdout


def test_a_length_without_room_is_refused(compiled_sample: Path) -> None:
    done = run_program(compiled_sample, "--max-length", "2", "a cat")
    assert done.returncode == 2
    assert "leaves no room beside the 2 special tokens" in complaint(done)[0]


def test_damage_is_named(compiled_sample: Path, tmp_path: Path) -> None:
    copy = tmp_path / "bundle"
    shutil.copytree(compiled_sample, copy)
    table = copy / "model/tokenizer.bin"
    content = bytearray(table.read_bytes())
    content[100] ^= 1
    table.write_bytes(content)
    done = run_program(copy, "a cat")
    assert done.returncode == 4
    assert "tokenizer.bin is damaged" in complaint(done)[0]
    (copy / "lib/libtokens.so").write_bytes(b"no library")
    done = run_program(copy, "a cat")
    assert done.returncode == 5
    assert "the tokenizer does not load" in complaint(done)[0]
