"""What comes out of the program: JSON, JSON lines, npy, float32, onto a stream or into a file."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from array import array
from pathlib import Path

import numpy as np
import pytest

from edgepack.runner.frozen.read import Record
from edgepack.runner.frozen.write import json_vector, writer_for

from .conftest import START, Run, complaint, vectors_of

TEXTS = ("a cat", "the kitten sat", "mat")
LINES = "".join(f"{text}\n" for text in TEXTS).encode()


def test_json_is_one_array_and_the_default_for_arguments(run: Run) -> None:
    records = json.loads(run(*TEXTS).stdout)
    assert [record["text"] for record in records] == list(TEXTS)
    assert run("--out=json", input=LINES).stdout == run(*TEXTS).stdout


def test_json_lines_are_the_default_for_lines(run: Run) -> None:
    assert run(input=LINES).stdout == run("--out=jsonl", *TEXTS).stdout
    assert len(run(input=LINES).stdout.splitlines()) == 3


def test_text_beyond_ascii_stays_readable(run: Run) -> None:
    assert '"text":"Katze ü 日本"' in run("Katze ü 日本").stdout.decode()


def test_npy_is_read_by_numpy(run: Run, tmp_path: Path) -> None:
    expected = np.array(vectors_of(run(*TEXTS).stdout), dtype=np.float32)
    for name, arguments, input in (
        ("arguments", TEXTS, b""),
        ("lines", (), LINES),
    ):
        path = tmp_path / f"{name}.npy"
        assert run("--out=npy", "--output", str(path), *arguments, input=input).returncode == 0
        loaded = np.load(path)
        assert loaded.dtype == np.float32
        assert np.array_equal(loaded, expected)


def test_npy_goes_through_a_pipe_when_the_number_of_texts_is_known(run: Run) -> None:
    loaded = np.load(io.BytesIO(run("--out=npy", *TEXTS).stdout))
    assert loaded.shape == (3, 8)


def test_npy_of_unknown_length_on_a_pipe_is_refused(run: Run) -> None:
    done = run("--out=npy", input=LINES)
    assert done.returncode == 2
    assert "npy" in complaint(done)[0]
    assert "--output" in complaint(done)[1]
    assert done.stdout == b""


def test_npy_onto_a_redirected_standard_output(sample: Path, tmp_path: Path) -> None:
    with (tmp_path / "out.npy").open("wb") as stream:
        command = [sys.executable, "-c", START, str(sample), "--out=npy"]
        subprocess.run(command, input=LINES, stdout=stream, check=True)
    assert np.load(tmp_path / "out.npy").shape == (3, 8)


def test_npy_onto_an_appended_output_is_refused(sample: Path, tmp_path: Path) -> None:
    with (tmp_path / "out.npy").open("ab") as stream:
        command = [sys.executable, "-c", START, str(sample), "--out=npy"]
        done = subprocess.run(command, input=LINES, stdout=stream, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert "wound back" in complaint(done)[0]


@pytest.mark.parametrize("count", [1, 10**12])
def test_the_npy_header_fits_any_number(count: int) -> None:
    stream = io.BytesIO()
    writer_for("npy", stream, dimension=4096, count=count)
    stream.seek(0)
    assert np.lib.format.read_magic(stream) == (1, 0)
    assert np.lib.format.read_array_header_1_0(stream) == ((count, 4096), False, np.dtype("<f4"))
    assert stream.tell() == 128


def test_float32_is_numbers_only(run: Run) -> None:
    expected = np.array(vectors_of(run(*TEXTS).stdout), dtype="<f4")
    assert run("--out=f32", input=LINES).stdout == expected.tobytes()


def test_every_float32_comes_back_from_its_json() -> None:
    bits = np.random.default_rng(3).integers(0, 1 << 32, 20_000, dtype=np.uint32)
    numbers = bits.view(np.float32)
    numbers = np.concatenate([numbers[np.isfinite(numbers)], np.array([0, 1e-45, 3e38], np.float32)])
    read = np.array(json.loads(json_vector(array("f", numbers.tobytes()))), dtype=np.float32)
    assert np.array_equal(read, numbers)


def test_a_record_with_quotes_is_sound_json() -> None:
    stream = io.BytesIO()
    writer = writer_for("jsonl", stream, dimension=1, count=1)
    writer.write(Record('say "hi"\\\n\0'), array("f", [1]))
    assert json.loads(stream.getvalue()) == {"text": 'say "hi"\\\n\0', "embedding": [1]}


def test_a_file_appears_whole_or_not_at_all(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("before")
    done = run("--in=jsonl", "--output", str(path), input=b'{"text":"a"}\n{broken\n')
    assert done.returncode == 3
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.jsonl"]
    assert run("--output", str(path), "a cat").returncode == 0
    assert json.loads(path.read_bytes())[0]["text"] == "a cat"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.jsonl"]


def test_an_output_that_cannot_be_made_is_named(run: Run) -> None:
    done = run("--output", "/nowhere/out.json", "a cat")
    assert done.returncode == 7
    assert "/nowhere/out.json" in complaint(done)[0]


@pytest.mark.parametrize("arguments", [("a cat",), ("--help",), ("--info",), ("--similarity", "a", "b")])
def test_a_full_disk_is_an_error(sample: Path, arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-c", START, str(sample), *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 7
    assert "No space left" in complaint(done)[0]


def test_a_device_is_written_in_place(run: Run) -> None:
    done = run("--output", "/dev/full", "a cat")
    assert done.returncode == 7
    assert run("--output", "/dev/null", "a cat").returncode == 0
    assert Path("/dev/null").is_char_device()


def test_a_closed_standard_output_is_an_error(sample: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" "$@" >&-', sys.executable, "-c", START, str(sample), "a cat"],
        stderr=subprocess.PIPE,
        check=False,
    )
    assert done.returncode == 7
    assert "standard output" in complaint(done)[0]


def test_a_reader_that_goes_away_ends_it_without_a_word(sample: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", START, sample],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as program:
        assert program.stdin and program.stdout and program.stderr
        program.stdin.write(b"a cat\n")
        program.stdin.flush()
        program.stdout.readline()
        program.stdout.close()
        program.stdin.write(b"a cat\n")
        program.stdin.close()
        assert program.wait() == -signal.SIGPIPE
        assert program.stderr.read() == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_quietly_and_leaves_no_half_file(
    sample: Path, tmp_path: Path, number: signal.Signals
) -> None:
    output = tmp_path / "out.jsonl"
    command = [sys.executable, "-c", START, str(sample), "--output", str(output)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdin and program.stderr
        program.stdin.write(b"a cat\n")
        program.stdin.flush()
        while not any(entry.stat().st_size for entry in tmp_path.iterdir()):
            assert program.poll() is None
        program.send_signal(number)
        assert program.wait() == -number
        assert program.stderr.read() == b""
    assert list(tmp_path.iterdir()) == []


def test_what_was_ignored_at_the_start_stays_ignored(sample: Path) -> None:
    command = ["sh", "-c", 'trap "" INT; exec "$0" "$@"', sys.executable, "-c", START, str(sample)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin and program.stdout
        program.stdin.write(b"a cat\n")
        program.stdin.flush()
        program.stdout.readline()
        os.kill(program.pid, signal.SIGINT)
        program.stdin.write(b"mat\n")
        program.stdin.close()
        assert json.loads(program.stdout.readline())["text"] == "mat"
        assert program.wait() == 0


def test_a_library_that_aborts_is_an_error_with_a_code_of_its_own() -> None:
    script = (
        "import ctypes; from edgepack.runner.frozen.signals import answer_aborts; answer_aborts();"
        "ctypes.CDLL(None).abort()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 5
    assert "gave up" in complaint(done)[0]
