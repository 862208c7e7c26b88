"""`embed --chunks`: long texts in chunks, each with its bytes and its vector."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.embed_serve import Running, running
from tests.support.native import compile_features
from tests.support.once import made_once
from tests.support.sample_program import complaint, library_of, run_program, vectors_of, write_compiled_sample

from edgepack.runner.freeze.sample_bundle import write_manifest

pytestmark = pytest.mark.tools("c++", "python")

Chunks = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample model: six tokens at most, two of which are special; each of its words is one."""

    def write(folder: Path) -> None:
        compile_features(folder / "embed", "chunks", "serve")
        made = folder / "bundle"
        made.mkdir()
        write_compiled_sample(made)
        shutil.copy(folder / "embed", made)
        write_manifest(made, library=library_of(made))

    return made_once(tmp_path_factory, "chunks-sample", write) / "bundle"


@pytest.fixture(scope="module")
def server(bundle: Path) -> Iterator[Running]:
    with running(bundle) as made:
        yield made


def chunks_of(bundle: Path, text: str, tokens: int = 6) -> list[dict[str, Any]]:
    done = run_program(bundle, "--chunks", str(tokens), "--", text)
    assert done.returncode == 0, done.stderr
    made: list[dict[str, Any]] = json.loads(done.stdout)
    return made


def texts_of(bundle: Path, text: str, tokens: int = 6) -> list[str]:
    return [each["text"] for each in chunks_of(bundle, text, tokens)]


def test_a_text_that_fits_is_one_chunk_and_has_its_own_vector(bundle: Path) -> None:
    # The last is one unknown word, and of each part of it the tokens are many.
    for text in ("a cat sat on", " a cat ", "", "  ", "a" + "s" * 200):
        (only,) = chunks_of(bundle, text)
        (alone,) = vectors_of(run_program(bundle, "--", text).stdout)
        assert only == {"index": 0, "start": 0, "end": len(text), "text": text, "embedding": alone}


def test_a_chunk_has_the_vector_of_its_own_bytes(bundle: Path) -> None:
    text = "a cat sat on the mat. the kitten sat on a mat on a mat"
    made = chunks_of(bundle, text)
    parts = [text[each["start"] : each["end"]] for each in made]
    assert [each["text"] for each in made] == parts
    assert [each["embedding"] for each in made] == vectors_of(run_program(bundle, "--", *parts).stdout)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a cat sat on the mat", ["a cat sat on", "the mat"]),
        # A division counts in the second half of what fits: a sentence that ends before it does not.
        ("a cat sat. on the mat on", ["a cat sat.", "on the mat on"]),
        ("a. cat sat on the mat", ["a. cat sat", "on the mat"]),
        ("a cat! sat? on the mat", ["a cat!", "sat? on the", "mat"]),
        ("a cat\nsat on the mat", ["a cat\nsat on", "the mat"]),
        ("a cat sat\non the mat on", ["a cat sat", "on the mat on"]),
        ("a cat\r\n\r\nsat on. the mat", ["a cat", "sat on.", "the mat"]),
        ("a cat (sat.) on the mat", ["a cat", "(sat.)", "on the mat"]),
        ("  a cat sat on   the mat  ", ["a cat sat on", "the mat"]),
        ("a\u3000cat\u3000sat\u3000on\u3000the", ["a\u3000cat\u3000sat\u3000on", "the"]),
        ("\u732b\u3002\u732b\u3002\u732b\u3002\u732b", ["\u732b\u3002\u732b\u3002", "\u732b\u3002\u732b"]),
    ],
)
def test_chunks_end_where_a_paragraph_a_sentence_or_a_word_does(
    bundle: Path, text: str, wanted: list[str]
) -> None:
    assert texts_of(bundle, text) == wanted


def test_a_word_of_many_tokens_is_cut_between_characters(bundle: Path) -> None:
    text = "\u00e4\u732b" * 20 + "\U0001f408"
    made = chunks_of(bundle, "".join(f"{letter}\u3002" for letter in text), 4)
    assert "".join(each["text"] for each in made) == "".join(f"{letter}\u3002" for letter in text)


def test_every_character_is_in_a_chunk_and_no_chunk_is_too_long(bundle: Path) -> None:
    chance = random.Random(1)
    letters = ["a ", "cat", ". ", "\n", "\n\n", " ", "\u3002", "\U0001f408", "mat ", "\u2028", "s", "\t", "!"]
    lines = ["".join(chance.choices(letters, k=chance.randrange(1, 60))) for _ in range(60)]
    documents = "".join(json.dumps({"text": line}) + "\n" for line in lines)
    for tokens in (3, 4, 6):
        done = run_program(bundle, "--jsonl", "--chunks", str(tokens), input=documents.encode())
        made = [json.loads(line) for line in done.stdout.splitlines()]
        assert [each["index"] for each in made] == sorted(each["index"] for each in made)
        for number, line in enumerate(lines):
            end, raw = 0, line.encode()
            for each in (each for each in made if each["index"] == number):
                assert not raw[end : each["start"]].decode().strip()
                assert raw[each["start"] : each["end"]].decode() == each["text"]
                assert each["start"] >= end
                end = each["end"]
            assert not raw[end:].decode().strip()
        parts = "".join(json.dumps({"text": each["text"]}) + "\n" for each in made)
        said = run_program(bundle, "--jsonl", "--tokens", "--max-length", "6", input=parts.encode()).stdout
        assert max(len(json.loads(ids)) for ids in said.splitlines()) <= tokens


def test_a_long_line_takes_time_that_grows_with_it(bundle: Path) -> None:
    """Of half a million words, each is tokenized with those of its chunk alone: else this would take hours."""
    done = run_program(bundle, "--chunks", "6", "--threads", "2", input=b"a cat sat on " * 25_000)
    made = done.stdout.splitlines()
    assert len(made) == 25_000
    assert json.loads(made[-1])["end"] == 13 * 25_000 - 1


def test_objects_are_told_apart_by_their_field(bundle: Path) -> None:
    line = {"id": [7], "body": "a cat sat on the mat"}
    done = run_program(
        bundle,
        *("--jsonl", "--text-field", "body", "--id-field", "id", "--chunks", "6", "--dtype", "int8"),
        input=json.dumps(line).encode(),
    )
    made = [json.loads(each) for each in done.stdout.splitlines()]
    assert [{**each, "embedding": len(each["embedding"]), "scale": 1} for each in made] == [
        {"id": [7], "start": start, "end": end, "embedding": 8, "scale": 1}
        for start, end in ((0, 12), (13, 20))
    ]


def test_each_chunk_gets_the_prefix(bundle: Path) -> None:
    done = run_program(bundle, "--chunks", "6", "--prefix", "query", "a cat sat on")
    made = json.loads(done.stdout)
    assert [each["text"] for each in made] == ["a cat sat", "on"]
    alone = run_program(bundle, "--prefix", "query", "a cat sat", "on")
    assert [each["embedding"] for each in made] == vectors_of(alone.stdout)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--late", "a"), "--late requires --chunks"),
        (("--chunks", "0", "a"), "is not a number from 1 to 65535"),
        (("--chunks", "7", "a"), "chunks of 7 tokens: 6 at most"),
        (("--chunks", "2", "a"), "chunks of 2 tokens leave no room beside 2 of special tokens and prefix"),
        (
            ("--chunks", "6", "--late", "a"),
            "this program reads each chunk alone: late chunks require edgepack's engine",
        ),
        (
            ("--chunks", "6", "--out", "npy", "a"),
            "--chunks writes json or jsonl: --out npy has no place for bytes",
        ),
        (("--chunks", "6", "--similarity", "a", "b"), "--chunks cannot be used with --similarity"),
        (("--chunks", "6", "--sparse", "a"), "--sparse: sample makes one vector of a text"),
        (("--chunks", "6"), "no text: the input is empty"),
    ],
)
def test_what_makes_no_sense_is_refused(bundle: Path, arguments: tuple[str, ...], said: str) -> None:
    done = run_program(bundle, *arguments)
    assert done.returncode == 2
    assert said in complaint(done)[0]


def test_other_programs_do_not_know_the_option(native_sample: Path, tmp_path: Path) -> None:
    """And say how they can be made with it, if their target can be asked for it."""
    done = run_program(native_sample, "--chunks", "6", "a")
    assert complaint(done)[0] == "error: unknown option --chunks"
    assert b"--chunks" not in run_program(native_sample, "--help").stdout
    asked = shutil.copytree(native_sample, tmp_path / "asked")
    compile_features(asked / "embed", possible=("chunks",))
    for option in ("--chunks=6", "--late"):
        assert complaint(run_program(asked, option, "a")) == [
            f"error: this program was built without {option.partition('=')[0]}",
            "hint: build with --set chunks=true",
        ]
    assert complaint(run_program(asked, "--chunk", "a"))[0] == "error: unknown option --chunk"
    assert complaint(run_program(asked, "search", "--late", "a"))[0] == "error: unknown option --late"
    assert b"--chunks" not in run_program(asked, "--help").stdout


def test_the_server_gives_chunks_with_the_number_of_their_text(server: Running, bundle: Path) -> None:
    text = "a cat sat on the mat"
    answer = server.embed(["a cat", text], chunks=6).json
    made = [(row["index"], row["start"], row["end"]) for row in answer["data"]]
    assert made == [(0, 0, 5), (1, 0, 12), (1, 13, 20)]
    wanted = vectors_of(run_program(bundle, "a cat", text[:12], text[13:]).stdout)
    assert [row["embedding"] for row in answer["data"]] == [pytest.approx(each, abs=1e-6) for each in wanted]
    assert answer["usage"]["total_tokens"] == 4 + 6 + 4
    (whole,) = server.embed("a cat", prefix="query", chunks=6, encoding_format="base64").json["data"]
    assert (whole["start"], whole["end"]) == (0, 5)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"input": "a", "chunks": 0}, "chunks must be a positive integer"),
        ({"input": "a", "chunks": 7}, "chunks of 7 tokens: 6 at most"),
        ({"input": [4, 5], "chunks": 6}, "chunks are of texts, not of token ids"),
        ({"input": "a", "late": True}, "late requires chunks"),
        ({"input": "a", "chunks": 6, "late": 1}, "late must be true or false"),
        ({"input": "a", "chunks": 6, "late": True}, "this program reads each chunk alone"),
        ({"input": "a " * 3000, "chunks": 3}, "more than 2048 chunks"),
    ],
)
def test_the_server_says_what_makes_no_sense(server: Running, asked: dict[str, Any], said: str) -> None:
    answer = server.ask("/v1/embeddings", asked)
    assert answer.status == 400
    assert said in answer.json["error"]["message"]
