"""What comes out of the program: JSON, JSON lines, npy, float32, onto a stream or into a file."""

import io
import json
import os
import re
import signal
import stat
import subprocess
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.support.sample_program import (
    Run,
    command_of,
    complaint,
    ended_by,
    is_for_windows,
    vectors_of,
)
from tests.support.wine import left_in, under_wine

pytestmark = pytest.mark.tools("c++", "python", "sh")

TEXTS = ("a cat", "the kitten sat", "mat")
LINES = "".join(f"{text}\n" for text in TEXTS).encode()


def test_a_text_in_the_field_of_the_vector_gives_way_to_it(run: Run) -> None:
    done = run("--jsonl", "--text-field", "embedding", input=b'{"embedding": "a cat"}\n')
    assert list(json.loads(done.stdout)) == ["embedding"]


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
        command = [*command_of(sample), "--out=npy"]
        subprocess.run(command, input=LINES, stdout=stream, check=True)
    assert np.load(tmp_path / "out.npy").shape == (3, 8)


def test_npy_onto_an_appended_output_is_refused(sample: Path, tmp_path: Path) -> None:
    with (tmp_path / "out.npy").open("ab") as stream:
        command = [*command_of(sample), "--out=npy"]
        done = subprocess.run(command, input=LINES, stdout=stream, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert "not a pipe or >>" in complaint(done)[0]


def test_float32_is_numbers_only(run: Run) -> None:
    expected = np.array(vectors_of(run(*TEXTS).stdout), dtype="<f4")
    assert run("--out=raw", input=LINES).stdout == expected.tobytes()


def test_a_record_with_quotes_is_sound_json(run: Run) -> None:
    text = 'say "hi"\\\n\0'
    done = run("--jsonl", input=json.dumps({"text": text}).encode() + b"\n")
    assert json.loads(done.stdout)["text"] == text


def test_a_file_appears_whole_or_not_at_all(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("before")
    done = run("--jsonl", "--output", str(path), input=b'{"text":"a"}\n{broken\n')
    assert done.returncode == 3
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.jsonl"]
    assert run("--output", str(path), "a cat").returncode == 0
    assert json.loads(path.read_bytes())[0]["text"] == "a cat"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.jsonl"]


def test_what_a_killed_run_left_is_in_nobodys_way(sample: Path, tmp_path: Path) -> None:
    """In a container a process has the same number each time."""
    if is_for_windows(sample):
        pytest.skip("wine gives other numbers than the shell's")
    script = 'touch "$1.part-$$"; program=$0; exec "$program" --output "$1" "a cat"'
    out = tmp_path / "out.json"
    done = subprocess.run(["sh", "-c", script, command_of(sample)[0], str(out)], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"") and json.loads(out.read_bytes())
    assert len([*tmp_path.glob("out.json.part-*")]) == 1


def test_a_file_is_replaced_by_one_that_no_more_people_read(sample: Path, run: Run, tmp_path: Path) -> None:
    if is_for_windows(sample):
        pytest.skip("Windows has no such modes")
    out = tmp_path / "out.json"
    for mode in (0o600, 0o640, 0o644):
        out.touch()
        out.chmod(mode)
        assert run("--output", str(out), "a cat").returncode == 0
        assert stat.S_IMODE(out.stat().st_mode) == mode


def test_an_output_that_cannot_be_made_is_named(run: Run) -> None:
    done = run("--output", "/nowhere/out.json", "a cat")
    assert done.returncode == 7
    assert "/nowhere/out.json" in complaint(done)[0]


@pytest.mark.parametrize("arguments", [("a cat",), ("--help",), ("--info",), ("--similarity", "a", "b")])
def test_a_full_disk_is_an_error(sample: Path, arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [*command_of(sample), *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 7
    assert "No space left" in complaint(done)[0]


def test_a_limit_of_file_sizes_is_an_error(sample: Path, tmp_path: Path) -> None:
    if is_for_windows(sample):
        pytest.skip("Windows has no such limit")
    script = 'ulimit -f 0; exec "$0" --output "$1" "a cat"'
    command = ["sh", "-c", script, command_of(sample)[0], str(tmp_path / "out.json")]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 7
    assert "File too large" in complaint(done)[0] and not [*tmp_path.iterdir()]


def test_a_device_is_written_in_place(run: Run) -> None:
    done = run("--output", "/dev/full", "a cat")
    assert done.returncode == 7
    assert run("--output", "/dev/null", "a cat").returncode == 0
    assert Path("/dev/null").is_char_device()


def test_a_closed_standard_output_is_an_error(sample: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" "$@" >&-', *command_of(sample), "a cat"],
        stderr=subprocess.PIPE,
        check=False,
    )
    assert done.returncode == 7
    assert "standard output" in complaint(done)[0]


def test_a_reader_that_goes_away_ends_it_without_a_word(sample: Path) -> None:
    with subprocess.Popen(
        command_of(sample),
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
        assert program.wait() == ended_by(sample, signal.SIGPIPE)
        assert program.stderr.read() == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_quietly_and_leaves_no_half_file(
    sample: Path, tmp_path: Path, number: signal.Signals
) -> None:
    output = tmp_path / "out.jsonl"
    command = [*command_of(sample), "--output", str(output)]
    # What runs the tests in the background may have had them ignore an interrupt.
    heeding = partial(signal.signal, number, signal.SIG_DFL)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heeding
    ) as program:
        assert program.stdin and program.stderr
        program.stdin.write(b"a cat\n")
        program.stdin.flush()
        while not any(entry.stat().st_size for entry in tmp_path.iterdir()):
            assert program.poll() is None
        program.send_signal(number)
        assert program.wait(60) == ended_by(sample, number)
        assert program.stderr.read() == b""
    assert left_in(tmp_path) == []


def test_an_interrupt_ends_it_while_it_waits_for_a_line(sample: Path) -> None:
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        command_of(sample),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heeding,
    ) as program:
        assert program.stdin and program.stdout and program.stderr
        program.stdin.write(b"a cat\n")
        program.stdin.flush()
        program.stdout.readline()
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == ended_by(sample, signal.SIGINT)
        assert program.stderr.read() == b""


def test_what_was_ignored_at_the_start_stays_ignored(sample: Path) -> None:
    command = ["sh", "-c", 'trap "" INT; exec "$0" "$@"', *command_of(sample)]
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


def test_float16_is_rounded_to_even(run: Run, tmp_path: Path) -> None:
    expected = np.array(vectors_of(run(*TEXTS).stdout), dtype=np.float32)
    assert run("--out=raw", "--dtype=f16", input=LINES).stdout == expected.astype("<f2").tobytes()
    path = tmp_path / "v.npy"
    run("--out=npy", "--dtype=f16", "--output", str(path), *TEXTS)
    assert np.load(path).dtype == np.float16
    assert np.array_equal(np.load(path), expected.astype(np.float16))
    said = np.array(vectors_of(run("--dtype=f16", *TEXTS).stdout), dtype=np.float16)
    assert np.array_equal(said, expected.astype(np.float16))


def test_int8_fills_its_range_and_says_its_scale(run: Run) -> None:
    vectors = np.array(vectors_of(run(*TEXTS).stdout), dtype=np.float32)
    records = json.loads(run("--dtype=int8", *TEXTS).stdout)
    raw = np.frombuffer(run("--out=raw", "--dtype=int8", input=LINES).stdout, dtype=np.int8)
    for record, vector, row in zip(records, vectors, raw.reshape(3, 8), strict=True):
        largest = float(np.abs(vector).max())
        assert record["embedding"] == np.rint(vector.astype(float) * (127 / largest)).astype(int).tolist()
        assert max(map(abs, record["embedding"])) == 127
        assert record["embedding"] == row.tolist()
        assert np.array(record["embedding"]) * record["scale"] == pytest.approx(
            vector, abs=record["scale"] / 2 + 1e-6
        )


def test_binary_rows_have_an_eighth_of_the_columns(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "v.npy"
    assert run("--out=npy", "--dtype=binary", "--output", str(path), input=LINES).returncode == 0
    loaded = np.load(path)
    assert (loaded.shape, loaded.dtype) == ((3, 1), np.uint8)
    assert loaded.tolist() == vectors_of(run("--dtype=binary", *TEXTS).stdout)
    numbers = np.array(vectors_of(run(*TEXTS).stdout), dtype=np.float32)
    assert np.array_equal(loaded, np.packbits(numbers > 0, axis=1))


def test_a_field_named_scale_is_replaced_only_where_there_is_one(run: Run) -> None:
    line = b'{"text": "a cat", "scale": "mine"}\n'
    assert json.loads(run("--jsonl", input=line).stdout)["scale"] == "mine"
    done = run("--jsonl", "--dtype=int8", input=line)
    assert done.stdout.count(b'"scale"') == 1
    assert isinstance(json.loads(done.stdout)["scale"], float)


@pytest.mark.sample(1)
def test_streams_that_do_not_wait_are_waited_for(sample: Path, tmp_path: Path) -> None:
    """The flag is the open file's: node, asyncio or ssh set it for all who share it."""
    input, given = os.pipe()
    taken, output = os.pipe()
    os.set_blocking(input, False)
    os.set_blocking(output, False)
    texts = 3000  # more than a pipe holds of their vectors
    with subprocess.Popen(command_of(sample), stdin=input, stdout=output, stderr=subprocess.PIPE) as program:
        os.close(input)
        os.close(output)
        time.sleep(0.05)
        os.write(given, b"a cat\n" * texts)
        os.close(given)
        time.sleep(0.05)
        with os.fdopen(taken, "rb") as lines:
            assert len(lines.read().splitlines()) == texts
        assert program.wait() == 0


def test_with_an_id_field_nothing_else_comes_back(run: Run) -> None:
    lines = b'{"key": 12345678901234567890, "text": "a cat", "x": 1}\n{"key": "\xc3\xbc", "text": "mat"}\n'
    records = [json.loads(line) for line in run("--jsonl", "--id-field=key", input=lines).stdout.splitlines()]
    assert [set(record) for record in records] == [{"key", "embedding"}] * 2
    assert [record["key"] for record in records] == [12345678901234567890, "ü"]
    assert records[0]["embedding"] == vectors_of(run("a cat").stdout)[0]


def test_half_a_character_of_an_id_is_written_as_it_came(run: Run) -> None:
    line = b'{"key": ["\\udc00x", {"\\ud83d": "\xed\x9f\xbf\\ud83d\\ude00"}], "text": "a cat"}\n'
    done = run("--jsonl", "--id-field=key", input=line)
    assert json.loads(done.stdout.decode())["key"] == ["\udc00x", {"\ud83d": "\ud7ff\U0001f600"}]


def test_fewer_numbers_are_of_length_one(run: Run, tmp_path: Path) -> None:
    vectors = np.array(vectors_of(run(*TEXTS).stdout))[:, :4]
    expected = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    path = tmp_path / "v.npy"
    run("--dim=4", "--out=npy", "--output", str(path), input=LINES)
    assert np.load(path) == pytest.approx(expected, abs=1e-6)


def test_a_table_is_as_wide_as_the_terminal(sample: Path) -> None:
    shown = on_a_terminal(sample, "a cat", "日本語" * 30, "\x1b[31mred\n", columns=60).splitlines()
    assert len(shown) == 3
    assert shown[0].startswith("a cat  ")
    assert shown[0].rstrip().endswith("…")
    assert "日本" in shown[1]
    assert "\x1b" not in shown[2]
    assert "·[31mred·" in shown[2]
    assert max(len(line) for line in shown) <= 60


def on_a_terminal(sample: Path, *texts: str, columns: int) -> str:
    """What a person sees."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    windows = is_for_windows(sample)
    command = under_wine(sample / "embed.exe", console=True) if windows else command_of(sample)
    subprocess.run([*command, *texts], stdout=theirs, check=True)
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:  # Linux: the other end is closed
        pass
    os.close(ours)
    # wine hides the cursor before what it shows, and shows it again.
    return re.sub(r"\x1b\[\?25[lh]|\r", "", shown.decode())


def test_threads_change_neither_order_nor_vectors(run: Run) -> None:
    words = ("a", "cat", "kitten", "sat", "on", "the", "mat")
    lines = "".join(
        " ".join(words[: number % 8]) + f" {words[number % 5]}\n" for number in range(700)
    ).encode()
    one, three = (run("--threads", threads, "--out", "raw", input=lines) for threads in ("1", "3"))
    assert one.returncode == three.returncode == 0
    assert len(one.stdout) == 700 * 8 * 4
    assert one.stdout == three.stdout
