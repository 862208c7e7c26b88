"""The program for Windows, run under wine and not on Windows: bits, words, paths, pipes."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.support.bundles import made_bundle
from tests.support.embed_serve import running
from tests.support.wine import required_wine

from edgepack.foundry.proof.emulator import find_system
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack_single.package import Single
from edgepack_windows.imports import imports_of

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
]

LARGEST_PROGRAM = 1_500_000
TEXTS = [
    "A man is eating food.",
    "",
    "Ein zweiter Text, länger als der erste: 日本語",
    "word " * 300,
    "a",
    *"bcdef",
]
LINES = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS).encode()
Embed = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The first time it compiles ONNX Runtime for Windows: ten minutes on two cores."""
    required_wine()
    return made_bundle("windows-x64", tmp_path_factory.mktemp("windows"))


@pytest.fixture(scope="module")
def linux(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return made_bundle("linux-x86-min", tmp_path_factory.mktemp("linux"))


@pytest.fixture
def under_wine(shared_context: HostContext, windows: Bundle) -> Embed:
    emulator = find_system("windows", windows.program, context=shared_context)
    assert emulator is not None
    before = ["env", "-i", *emulator.command("x86_64")]

    def embed(
        *words: str, program: Path = windows.program, input: bytes = b"", cwd: Path | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        command = [*before, program, *words]
        return subprocess.run(command, input=input, capture_output=True, check=False, cwd=cwd)

    return embed


def width(bundle: Bundle) -> int:
    """Numbers of a vector."""
    found: int = bundle.manifest["model"]["dimension"]
    return found


def test_the_bundle_is_verified_under_wine_and_says_so(windows: Bundle) -> None:
    assert windows.program.name == "embed.exe"
    libraries = {name.lower() for name in imports_of(windows.program.read_bytes())}
    assert libraries == {"kernel32.dll", "api-ms-win-core-synch-l1-2-0.dll"}
    report = json.loads(Path(f"{windows.directory}.report.json").read_text())
    assert report["verification"]["status"] == "passed"
    (proof,) = report["proofs"]
    assert proof["proved"] and proof["by"].startswith("wine ") and proof["by"].endswith(", not Windows")
    (section,) = (each for each in report["sections"] if each["name"] == "windows")
    assert {"label": "run", "value": "under wine, not on Windows"} in section["rows"]


def test_the_program_is_small(windows: Bundle) -> None:
    assert windows.program.stat().st_size <= LARGEST_PROGRAM


@pytest.mark.parametrize("threads", ["1", "2"])
def test_vectors_have_the_bits_of_linux(
    windows: Bundle, linux: Bundle, under_wine: Embed, threads: str
) -> None:
    words = ["--jsonl", "--out", "raw", "--threads", threads]
    ours = under_wine(*words, input=LINES)
    assert ours.returncode == 0, ours.stderr
    theirs = subprocess.run([linux.program, *words], input=LINES, capture_output=True, check=True)
    assert len(ours.stdout) == 4 * width(windows) * len(TEXTS) and ours.stdout == theirs.stdout


def test_the_self_test_and_a_measurement(under_wine: Embed) -> None:
    tested = under_wine("--self-test", "--json")
    assert tested.returncode == 0 and json.loads(tested.stdout)["min_cosine"] > 0.99999, tested.stderr
    for words in (["--check"], ["--info"], ["--help"], ["--bench", "--json"]):
        done = under_wine(*words)
        assert done.returncode == 0 and done.stdout and not done.stderr, done.stderr


def test_one_file_has_the_bits_of_the_folder(
    windows: Bundle, under_wine: Embed, context: HostContext, tmp_path: Path
) -> None:
    one = tmp_path / "no other name.exe"
    Single(ending=".exe").pack(windows, one, context=context)
    words = ["--jsonl", "--out", "raw"]
    made = under_wine(*words, input=LINES, program=one)
    assert made.returncode == 0 and made.stdout == under_wine(*words, input=LINES).stdout, made.stderr
    for check in ("--check", "--self-test"):
        done = under_wine(check, program=one)
        assert done.returncode == 0 and b"passed" in done.stdout, done.stderr
    with one.open("ab") as file:
        file.write(b"\0")
    assert under_wine("a text", program=one).returncode == 4


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return made_bundle("windows-x64", tmp_path_factory.mktemp("served"), "--set", "serve=true")


def test_its_server_gives_the_program_s_vectors(served: Bundle, under_wine: Embed) -> None:
    program = served.program.read_bytes()
    assert set(imports_of(program)) == {
        "KERNEL32.dll",
        "api-ms-win-core-synch-l1-2-0.dll",
        "WS2_32.dll",
    }
    assert len(program) < LARGEST_PROGRAM
    with running(served.directory) as server:
        answer = server.embed(TEXTS, encoding_format="base64").json
    vectors = b"".join(base64.b64decode(row["embedding"]) for row in answer["data"])
    assert vectors == under_wine("--jsonl", "--out", "raw", input=LINES).stdout


def test_words_are_taken_apart_and_are_utf_8(linux: Bundle, under_wine: Embed) -> None:
    """wine makes one line of them, with Windows' quotes; the program takes it apart."""
    for word in (
        'a "quoted" word',
        "back\\slash\\",
        'both\\" of\\\\" them',
        "",
        "Grüße 你好 🎉",
        "tab\there",
        "-",
    ):
        words = ["--out", "json", "--", word]
        ours = under_wine(*words)
        theirs = subprocess.run([linux.program, *words], capture_output=True, check=True)
        assert (ours.returncode, ours.stdout) == (0, theirs.stdout), (word, ours.stderr)


def test_a_bundle_and_its_output_lie_anywhere(windows: Bundle, under_wine: Embed, tmp_path: Path) -> None:
    elsewhere = tmp_path / "a place with spaces, ümläute and 日本語"
    # Longer than the 260 letters that Windows' older functions take.
    for folder in (elsewhere, tmp_path.joinpath(*["a" * 60] * 6)):
        shutil.copytree(windows.directory, folder / "bundle")
        program = folder / "bundle/embed.exe"
        tested = under_wine("--self-test", program=program, cwd=Path("/"))
        assert tested.returncode == 0, tested.stderr
        output = folder / "vectors ü.npy"
        done = under_wine("a", "--out", "npy", "--output", str(output), program=program, cwd=Path("/"))
        assert done.returncode == 0 and np.load(output).shape == (1, width(windows)), done.stderr
        again = under_wine("a", "b", "--out", "npy", "--output", str(output), program=program)
        assert again.returncode == 0 and np.load(output).shape == (2, width(windows)), again.stderr
        assert sorted(path.name for path in folder.iterdir()) == ["bundle", output.name]
        backslashes = "Z:" + str(folder / "texts.txt").replace("/", "\\")
        (folder / "texts.txt").write_bytes("über\r\nzwei\r\n".encode())
        read = under_wine("--tokens", "--input", backslashes, program=program)
        assert read.stdout.count(b"\n") == 2 and b"\r" not in read.stdout, read.stderr


def test_bytes_go_through_pipes_and_files_as_they_are(
    windows: Bundle, under_wine: Embed, tmp_path: Path
) -> None:
    """No byte is added before a line feed, and none ends the input."""
    texts = b"one\ntwo\x1athree\r\nGr\xc3\xbc\xc3\x9fe"
    done = under_wine("--out", "raw", input=texts)
    assert done.returncode == 0 and len(done.stdout) == 3 * width(windows) * 4
    lines = under_wine("--tokens", input=texts)
    assert lines.stdout.count(b"\n") == 3 and b"\r" not in lines.stdout
    place = tmp_path / "vectors.npy"
    written = under_wine("--out", "npy", "--output", str(place), input=texts)
    assert written.returncode == 0, written.stderr
    assert np.load(place).astype("<f4").tobytes() == done.stdout


LISTED = (
    "a man is eating food\nthe cat sat\n\n  spaces  \nGrüße 你好\n".encode()
    + b"bad \xff byte\nlast without end"
)
OBJECTS = b"""{"id": 1, "text": "a cat"}
{"id": 2, "body": "x"}
not json

{"text": "Gr\xc3\xbc\xc3\x9fe", "n": [1.5, null]}
"""
ON_LISTED = (
    *(f"--out {form}" for form in ("json", "jsonl", "raw", "table", "npy", "nothing")),
    *(f"--out raw --dtype {dtype}" for dtype in ("f16", "int8", "binary")),
    *("--strict", "--strict --skip-bad", "--dim 64", "--prefix query", "--max-length 5 --out raw"),
    *("--batch-size 3 --out raw", "--batch-size 0", "--threads x", "--similarity a b", "--similarity a"),
    *(
        "--classify",
        "--sparse",
        "--rerank q",
        "--help",
        "search --help",
        "search",
        "serve",
        "-- -x",
    ),
    *(
        "a b --out table",
        "--output no/such/x",
        "--output .",
        "--input .",
        "--input texts.txt",
    ),
    *("--input texts.txt --out npy --output o.npy", "--input texts.txt --out jsonl --output o.jsonl"),
    *(
        "search cat",
        "search --json -k 2 cat",
        "search --min 0.5 cat",
        "search --min 5 cat",
        "search cat texts.txt",
    ),
    *("search --index i.npy cat texts.txt", "search --queries texts.txt texts.txt", "search cat nofile"),
    *("--require-signature texts.txt a", "--require-signature nofile a"),
)
ON_OBJECTS = (
    *("--jsonl", "--jsonl --skip-bad", "--jsonl --skip-bad --id-field id"),
    "--jsonl --text-field body --skip-bad",
)


def test_it_says_and_writes_what_linux_program_does(linux: Bundle, under_wine: Embed, tmp_path: Path) -> None:
    cases = [(line, LISTED) for line in ON_LISTED] + [(line, OBJECTS) for line in ON_OBJECTS]
    for number, (line, input) in enumerate(cases):
        found = []
        for name in ("linux", "windows"):
            folder = tmp_path / f"{number}-{name}"
            folder.mkdir()
            (folder / "texts.txt").write_bytes(LISTED)
            words = line.split()
            if name == "linux":
                command: list[str | Path] = [linux.program, *words]
                done = subprocess.run(command, input=input, capture_output=True, check=False, cwd=folder)
            else:
                done = under_wine(*words, input=input, cwd=folder)
            written = {file.name: file.read_bytes() for file in sorted(folder.iterdir())}
            found.append((done.returncode, done.stdout, done.stderr, written))
        assert found[1] == found[0], line


def test_what_is_wrong_is_said_in_two_lines(windows: Bundle, under_wine: Embed, tmp_path: Path) -> None:
    for words, input, code in (
        (["--no-such-option"], b"", 2),
        (["--input", "nowhere.txt"], b"", 2),
        ([], b"", 2),
        (["--jsonl"], b"not json\n", 2),
        (["a", "--output", "no/such/folder/x.npy", "--out", "npy"], b"", 3),
    ):
        done = under_wine(*words, input=input, cwd=tmp_path)
        said = done.stderr.decode().splitlines()
        assert done.stdout == b"" and said[0].startswith("error: "), (words, done)
        assert done.returncode != 0 and len(said) <= 2, (words, code, said)
    copy = tmp_path / "copy"
    shutil.copytree(windows.directory, copy)
    outside = {"path": "..\\outside", "size": 1, "sha256": hashlib.sha256(b"x").hexdigest(), "part": "model"}
    (tmp_path / "outside").write_bytes(b"x")
    listed = [*windows.manifest["files"], {**outside, "mode": "0644"}]
    (copy / "manifest.json").write_text(json.dumps({**windows.manifest, "files": listed}))
    strange = under_wine("--check", program=copy / "embed.exe")
    assert strange.returncode == 4 and b"outside is no file of the bundle" in strange.stderr
    (copy / "manifest.json").write_text(json.dumps(windows.manifest))
    model = copy / windows.manifest["model"]["file"]
    os.truncate(model, model.stat().st_size - 1)
    damaged = under_wine("a", program=copy / "embed.exe")
    assert damaged.returncode == 4 and f"{model.name} is damaged".encode() in damaged.stderr
    model.unlink()
    missing = under_wine("a", program=copy / "embed.exe")
    assert missing.returncode == 4 and b"is missing from the bundle" in missing.stderr
