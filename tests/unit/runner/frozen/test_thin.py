"""The frozen program gives what the native one gives, with the package tokenizers in the place of a table, and a module of the user's own."""

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.sample_program import complaint, run_program, vectors_of
from tests.support.scored import sample_document, write_scored
from tests.unit.runner.frozen.conftest import START, Thin, with_module
from tokenizers import Tokenizer

from edgepack.runner.freeze.runner import LIBRARY
from edgepack.runner.freeze.sample_bundle import MAX_LENGTH, WORDS, write_manifest

pytestmark = pytest.mark.tools("c++", "python")

TEXTS = ("a cat", "the kitten sat", "", "mat 日本 \U0001f408", "a cat sat on the mat " * 1000)
TURNED = """\
def finish(vectors, texts):
    return [[-number for number in vector] for vector in vectors]
"""
LOWER = """\
def prepare(texts):
    print("not an answer")
    return [text.replace("dog", "cat") for text in texts]
"""


def test_vectors_and_tokens_are_the_native_programs(thin: Thin, native_sample: Path) -> None:
    lines = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    for options in ([], ["--max-length", "4"], ["--prefix", "query"], ["--dim", "4"], ["--tokens"]):
        done = thin("--jsonl", *options, input=lines)
        assert done.returncode == 0, done.stderr
        assert done.stdout == run_program(native_sample, "--jsonl", *options, input=lines.encode()).stdout


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--nonsense"], ["--max-length", "2", "a"], ["search", "--help"]]
)
def test_the_command_line_is_the_native_programs(
    thin: Thin, native_sample: Path, arguments: list[str]
) -> None:
    ours, theirs = thin(*arguments), run_program(native_sample, *arguments)
    assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)


def test_pairs_are_cut_as_tokenizers_cuts_them(
    bundle: Path, thin: Thin, libraries: Path, tmp_path: Path
) -> None:
    scored = write_scored(bundle, tmp_path / "scored", "rank")
    shutil.rmtree(bundle)
    scored.rename(bundle)
    shutil.copy(libraries / "scores.so", bundle / LIBRARY)
    manifest = json.loads((bundle / "manifest.json").read_text())
    (entry,) = (file for file in manifest["files"] if file["path"] == LIBRARY)
    entry["size"] = (bundle / LIBRARY).stat().st_size
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    reference = Tokenizer.from_str(sample_document())
    reference.enable_truncation(MAX_LENGTH)
    pairs = [("a cat", "mat"), ("the cats", "a cat sat on the mat"), ("a cat sat on the mat", ""), ("", "")]
    lines = "".join(json.dumps({"query": first, "text": second}) + "\n" for first, second in pairs)
    done = thin("--pairs", "--jsonl", "--tokens", input=lines)
    assert done.returncode == 0, done.stderr
    expected = [[each.ids, each.type_ids] for each in map(reference.encode, *zip(*pairs, strict=True))]
    assert [json.loads(line) for line in done.stdout.splitlines()] == expected
    assert thin("--rerank", "a cat", "--max-length", "4", "mat").returncode == 2


@pytest.mark.parametrize("change", [{"pre_tokenizer": {"type": "Nonsense"}}, {"model": None}])
def test_a_damaged_tokenizer_is_named(bundle: Path, thin: Thin, change: dict[str, object]) -> None:
    file = bundle / "model/tokenizer.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    write_manifest(bundle, library=json.loads((bundle / "manifest.json").read_text())["runtime"]["library"])
    done = thin("a cat")
    assert done.returncode == 4
    assert "model/tokenizer.json is damaged" in complaint(done)[0]
    assert thin("--version").returncode == 0


def test_a_tokenizer_without_special_tokens_gives_one_token_at_least(bundle: Path, thin: Thin) -> None:
    file = bundle / "model/tokenizer.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "post_processor": None}))
    write_manifest(bundle, library=json.loads((bundle / "manifest.json").read_text())["runtime"]["library"])
    assert thin("--tokens", "", "cat").stdout == b"[0]\n[5]\n"


def test_a_module_prepares_what_the_model_sees(bundle: Path, thin: Thin) -> None:
    expected = vectors_of(thin("the cat").stdout)
    near = thin("search", "the cat", input="the cat\n").stdout.split()[0]
    with_module(bundle, LOWER)
    done = thin("the dog")
    assert (vectors_of(done.stdout), done.stderr) == (expected, b"not an answer\n")
    # After the prefix, which is part of what the model sees.
    assert vectors_of(thin("--prefix", "query", "dog").stdout) == expected
    assert thin("search", "the cat", input="the dog\n").stdout.split()[0] == near


def test_a_module_finishes_whole_vectors_which_are_cut_then(bundle: Path, thin: Thin) -> None:
    whole, short = (np.array(vectors_of(thin(*TEXTS, *options).stdout)) for options in ((), ("--dim", "4")))
    with_module(bundle, TURNED)
    assert np.array_equal(np.array(vectors_of(thin(*TEXTS).stdout)), -whole)
    assert np.array(vectors_of(thin(*TEXTS, "--dim", "4").stdout)) == pytest.approx(-short)
    last_first = "def finish(vectors, texts):\n    return [vector[4:] + vector[:4] for vector in vectors]\n"
    with_module(bundle, last_first)
    tail = whole[:, 4:]
    found = np.array(vectors_of(thin(*TEXTS, "--dim", "4").stdout))
    assert found == pytest.approx(tail / np.linalg.norm(tail, axis=1, keepdims=True), abs=1e-6)


def test_both_get_the_texts_in_order_and_finish_the_prepared_ones(bundle: Path, thin: Thin) -> None:
    words = [word for word in WORDS if word.isalpha()]
    with_module(
        bundle,
        "def prepare(texts):\n    return [text + '!' for text in texts]\n"
        "def finish(vectors, texts):\n    return [[float(len(text))] * len(vector) for text, vector in zip(texts, vectors)]\n",
    )
    done = thin("--jsonl", input="".join(json.dumps({"text": word}) + "\n" for word in words))
    assert [vector[0] for vector in vectors_of(done.stdout)] == [len(word) + 1 for word in words]


WRONG = {
    "x = 1": ("hooks.py has neither a function prepare(texts) nor finish(vectors, texts)", "define one"),
    "import numpy.linalg_of_mine": ("hooks.py cannot be loaded: ModuleNotFoundError", "standard library"),
    "def prepare(texts): 1 / 0": (
        "hooks.py: prepare raised ZeroDivisionError: division by zero (line 1)",
        "mend",
    ),
    "def prepare(texts): return texts[1:]": ("hooks.py: prepare gave 0 texts for 1 texts", "mend"),
    "def prepare(texts): return None": ("hooks.py: prepare gave None, expected a list of texts", "mend"),
    "def prepare(texts): return [b'a']": ("prepare gave a value of type bytes among its texts", "mend"),
    "def finish(vectors, texts): raise SystemExit": ("hooks.py: finish raised SystemExit (line 1)", "mend"),
    "def finish(vectors, texts): return 3": (
        "finish gave a value of type int, expected a list of vectors",
        "mend",
    ),
    "def finish(vectors, texts): return []": ("hooks.py: finish gave 0 vectors for 1 texts", "mend"),
    "def finish(vectors, texts): return [[1.0]]": ("finish gave a vector of 1 numbers instead of 8", "mend"),
    "def finish(vectors, texts): return [5]": ("finish gave a value of type int for a vector", "mend"),
    "def finish(vectors, texts): return [[1e999] * 8]": ("finish gave a number that is not finite", "mend"),
    "import itertools\ndef finish(vectors, texts): return [itertools.repeat(1.0)]": (
        "finish gave a vector of 9 numbers instead of 8",
        "mend",
    ),
    "class E(Exception):\n    def __str__(self): raise E\ndef prepare(texts): raise E": (
        "hooks.py: prepare raised E (line 3)",
        "mend",
    ),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_with_a_module_is_said_in_two_lines(bundle: Path, thin: Thin, text: str) -> None:
    with_module(bundle, text)
    done = thin("a cat")
    assert (done.returncode, done.stdout) == (5, b"")
    message, hint = complaint(done)
    assert WRONG[text][0] in message and WRONG[text][1] in hint
    assert thin("--info").returncode == 0, "it is not loaded where nothing is embedded"


def test_a_module_of_another_content_is_damage(bundle: Path, thin: Thin) -> None:
    with_module(bundle, LOWER)
    (bundle / "module/hooks.py").write_text(LOWER.replace("cat", "mat"))
    done = thin("--check")
    assert (done.returncode, "module/hooks.py is damaged" in complaint(done)[0]) == (4, True)


def test_a_program_without_python_refuses_what_asks_for_it(native_sample: Path, tmp_path: Path) -> None:
    for change in ("module", "tokenizer"):
        folder = Path(shutil.copytree(native_sample, tmp_path / change, symlinks=True))
        library = json.loads((folder / "manifest.json").read_text())["runtime"]["library"]
        if change == "module":
            with_module(folder, LOWER)
        else:
            (folder / "model/tokenizer.bin").unlink()
            (folder / "model/tokenizer.json").write_text(sample_document())
            write_manifest(folder, library=library)
        done = run_program(folder, "a cat")
        assert done.returncode == 4
        assert complaint(done)


def test_the_server_has_the_module_around_the_model(bundle: Path, thin: Thin, python: Path) -> None:
    expected = vectors_of(thin("the cat").stdout)[0]
    with_module(bundle, LOWER + TURNED)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", START, str(python), str(bundle), "serve", "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as server:
        try:
            assert server.stderr is not None
            assert b"listening" in server.stderr.readline()
            found = ask(port, {"input": ["the dog"], "model": "sample"})
            assert np.array(found["data"][0]["embedding"]) == pytest.approx(-np.array(expected), abs=1e-6)
            assert (
                "takes texts and no token ids"
                in ask(port, {"input": [[2, 3]], "model": "sample"})["error"]["message"]
            )
        finally:
            server.terminate()
            server.communicate()
    assert server.returncode == 0


def ask(port: int, body: dict[str, object]) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/embeddings",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)


def test_a_reader_that_has_gone_ends_it_quietly(bundle: Path, python: Path) -> None:
    words = [sys.executable, "-c", START, str(python), str(bundle)]
    reading, writing = os.pipe()
    os.close(reading)
    lines = b"a cat\n" * 5000
    done = subprocess.run(words, input=lines, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode != 0, done.stderr) == (True, b"")


def test_little_is_imported_to_say_the_version(bundle: Path, python: Path) -> None:
    script = (
        "import sys, os; sys.path.insert(0, sys.argv.pop(1)); directory = sys.argv[1]\n"
        "from edgepack.runner.frozen.host import run\n"
        "run(directory, [directory + '/embed', '--version'])\n"
        "print([name for name in ('json', 're', 'enum', 'tokenizers', 'typing', 'pathlib') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(python), str(bundle)], capture_output=True, check=True
    )
    assert done.stdout.splitlines() == [b"embed 0 (sample)", b"[]"]


def test_an_index_is_of_the_module_too(bundle: Path, thin: Thin, tmp_path: Path) -> None:
    """Otherwise vectors of another module would stay, and be taken for those of this one."""
    notes = tmp_path / "notes.txt"
    notes.write_text("a cat\nmat\n")
    for text, note in (
        ("def finish(vectors, texts):\n    return vectors\n", b"note: the vectors are kept in"),
        ("def finish(vectors, texts):\n    return [row[::-1] for row in vectors]\n", b"made anew"),
    ):
        with_module(bundle, text)
        done = thin("search", "cat", str(notes))
        assert done.returncode == 0 and note in done.stderr, done.stderr
