"""``embed search``: the nearest texts of a file, and the vectors that it keeps."""

import json
import os
import re
import resource
import signal
import stat
import subprocess
import time
from functools import partial
from pathlib import Path
from zlib import adler32

import numpy as np
import pytest
from tests.support.sample_program import (
    Run,
    command_of,
    complaint,
    ended_by,
    is_for_windows,
    run_program,
    vectors_of,
)
from tests.support.wine import left_in

pytestmark = pytest.mark.tools("c++", "python")

TEXTS = ("a cat", "the kitten sat", "mat", "a cat sat on the mat", "mat mat")
"""As the query "cat", which gets the prefix "the ", has them near: 2, 3, 4, 1, 5."""
NEAREST = [2, 3, 4, 1, 5]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.txt"
    path.write_text("".join(f"{text}\n" for text in TEXTS))
    return path


def kept_of(notes: Path) -> Path:
    return notes.with_name("notes.txt.embed.npy")


def lines_of(done: subprocess.CompletedProcess[bytes]) -> list[int]:
    """Line numbers of what was found."""
    assert done.returncode == 0, done.stderr
    return [int(line.split("\t")[1]) for line in done.stdout.decode().splitlines()]


def test_the_nearest_come_first_with_cosine_and_line(run: Run, notes: Path) -> None:
    done = run("search", "-k", "2", "cat", str(notes))
    vectors = (
        np.array(vectors_of(run("--prefix=query", "cat").stdout + b"")),
        np.array(vectors_of(run(*TEXTS).stdout)),
    )
    cosines = vectors[1] @ vectors[0][0]
    assert [line - 1 for line in NEAREST] == np.argsort(-cosines).tolist()
    expected = "".join(f"{cosines[line - 1]:.4f}\t{line}\t{TEXTS[line - 1]}\n" for line in NEAREST[:2])
    assert done.stdout.decode() == expected
    assert done.stderr.decode() == f"note: the vectors are kept in {kept_of(notes)}\n"


def test_numpy_reads_what_is_kept_and_it_is_used_and_left_as_it_is(run: Run, notes: Path) -> None:
    run("search", "cat", str(notes))
    kept = np.load(kept_of(notes))
    assert kept == pytest.approx(np.array(vectors_of(run(*TEXTS).stdout)), abs=1e-6)
    before = kept_of(notes).stat()
    again = run("search", "cat", str(notes))
    assert (lines_of(again), again.stderr) == (NEAREST, b"")
    after = kept_of(notes).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert sorted(path.name for path in notes.parent.iterdir()) == [notes.name, kept_of(notes).name]


@pytest.mark.sample(1)
def test_a_changed_file_keeps_the_vectors_of_texts_that_it_had(run: Run, notes: Path) -> None:
    run("search", "cat", str(notes))
    old = np.load(kept_of(notes))
    for texts in (["kitten", *TEXTS[1:], "", "a mat"], TEXTS[:2], ["mat", "mat"]):
        notes.write_text("".join(f"{text}\n" for text in texts))
        done = run("search", "cat", str(notes))
        assert done.stderr == b""
        assert len(lines_of(done)) == len(list(filter(None, texts)))
        if "kitten" in texts:
            assert np.array_equal(np.load(kept_of(notes))[1:5], old[1:])
        kept_of(notes).unlink()
        assert run("search", "cat", str(notes)).stdout == done.stdout


@pytest.mark.sample(1)
def test_other_forms_of_input_and_output(run: Run, notes: Path) -> None:
    objects = b'{"body": "mat"}\n\n{"body": "a\\n\\u0007cat \\u0085"}\n'
    found = run("search", "--jsonl", "--text-field=body", "--json", "cat", input=objects)
    assert b"\x07" not in found.stdout
    assert "\x85" not in found.stdout.decode()
    said = json.loads(found.stdout)
    assert said["query"] == "cat"
    assert [(each["line"], each["text"]) for each in said["nearest"]] == [(1, "mat"), (3, "a\n\x07cat \x85")]
    shown = run("search", "--jsonl", "--text-field=body", "cat", input=objects).stdout.decode()
    assert shown.splitlines()[1].split("\t")[1:] == ["3", r"a \x07cat \x85"]
    done = run("search", "--queries", str(notes), "-k1", "--min", "0.9", input=b"the kitten sat\nmat mat\n")
    assert [line.split("\t")[-1] for line in done.stdout.decode().splitlines()] == [
        "# a cat",
        "",
        "# the kitten sat",
        "the kitten sat",
        "",
        "# mat",
        "",
        "# a cat sat on the mat",
        "",
        "# mat mat",
        "mat mat",
    ]
    assert run("search", "--", "--min", str(notes)).returncode == 0, "a query may look like an option"


@pytest.mark.sample(1)
def test_what_cannot_be_used_is_said_and_made_anew(run: Run, notes: Path) -> None:
    run("search", "cat", str(notes))
    sound = kept_of(notes).read_bytes()
    for damaged, problem in (
        (sound[:-1], "is damaged"),
        (sound + b"0", "is damaged"),
        (sound[:256], "is damaged"),
        *((sound[:size], "is damaged") for size in (255, 192)),
        (sound[:300] + b"\xff" + sound[301:], "is damaged"),
        (sound.replace(b"(5, 8)", b"(6, 8)"), "is damaged"),
        (sound.replace(b"embedder 0", b"embedder 1"), "is of another model or other settings"),
        (b"", ""),
    ):
        kept_of(notes).write_bytes(damaged)
        done = run("search", "cat", str(notes))
        said = f"note: {kept_of(notes)} {problem}: made anew\n" if problem else ""
        assert (lines_of(done), done.stderr.decode()) == (NEAREST, said)
        assert kept_of(notes).read_bytes() == sound
    other = run("search", "--dim=4", "cat", str(notes))
    assert b"is of another model or other settings: made anew" in other.stderr
    assert np.load(kept_of(notes)).shape == (5, 4)


def test_a_named_index_of_another_embedder_is_refused_and_left_as_it_is(
    run: Run, copy: Path, notes: Path, tmp_path: Path
) -> None:
    index = tmp_path / "index"
    assert lines_of(run("search", "--index", str(index), "cat", str(notes))) == NEAREST
    sound = index.read_bytes()
    own = f"embedder {'0' * 32}, 8 numbers, 6 tokens"
    assert own.encode() in sound[:256]
    for arguments, other in (
        (("--dim=4",), own.replace("8 numbers", "4 numbers")),
        (("--max-length=5",), own.replace("6 tokens", "5 tokens")),
    ):
        done = run("search", *arguments, "--index", str(index), "cat", str(notes))
        assert (done.returncode, done.stdout) == (3, b"")
        assert complaint(done) == [
            f"error: {index} has vectors of {own}, not of {other}",
            f"hint: to make it anew: rm '{index}', and this command again",
        ]
    manifest = json.loads((copy / "manifest.json").read_text())
    for embedder, code, words in (
        ("1" * 32, 3, f"not of embedder {'1' * 32}"),
        ("0" * 300, 4, "manifest.json does not name the embedder"),
    ):
        manifest["model"]["embedder"] = embedder
        (copy / "manifest.json").write_text(json.dumps(manifest))
        done = run_program(copy, "search", "--index", str(index), "cat", str(notes))
        assert (done.returncode, done.stdout) == (code, b"")
        assert words in complaint(done)[0]
    assert index.read_bytes() == sound


def test_another_bundle_of_the_embedder_takes_the_index(run: Run, copy: Path, notes: Path) -> None:
    """Whatever its file is: an index that one platform has made serves the others."""
    run("search", "cat", str(notes))
    before = kept_of(notes).stat()
    manifest = json.loads((copy / "manifest.json").read_text())
    for entry in manifest["files"]:
        entry["sha256"] = "1" * 64
    (copy / "manifest.json").write_text(json.dumps(manifest))
    done = run_program(copy, "search", "cat", str(notes))
    assert (lines_of(done), done.stderr) == (NEAREST, b"")
    assert kept_of(notes).stat().st_ino == before.st_ino


@pytest.mark.parametrize("kept", [0, 1000])
def test_what_is_done_when_it_is_broken_off_is_kept(
    sample: Path, run: Run, tmp_path: Path, kept: int
) -> None:
    """After 1,024 texts at first, then whenever there are twice as many."""
    lines = [f"{'a ' * (at % 3)}cat {at}" for at in range(5000)]
    index, notes = tmp_path / "index", tmp_path / "notes"
    notes.write_text("".join(f"{line}\n" for line in lines[:kept]))
    if kept:
        run("search", "--index", str(index), "cat", str(notes))
    command = [*command_of(sample), "search", "--index", str(index), "cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as program:
        assert program.stdin is not None
        program.stdin.write("".join(f"{line}\n" for line in lines).encode())
        program.stdin.flush()
        for _ in range(6000):
            if index.exists() and len(np.load(index)) >= 2048:
                break
            time.sleep(0.01)
        program.terminate()
        program.wait(60)
    assert [path for path in tmp_path.iterdir() if path not in (index, notes)] == []
    rows = np.load(index)
    assert 2048 <= len(rows) < 5000
    wanted = np.array(vectors_of(run(*lines[:3]).stdout))
    assert rows == pytest.approx(np.resize(wanted, rows.shape), abs=1e-6)
    notes.write_text("".join(f"{line}\n" for line in lines))
    done = run("search", "-k1", "--index", str(index), "cat", str(notes))
    assert (len(lines_of(done)), done.stderr) == (1, b"")
    assert len(np.load(index)) == 5000


def test_an_index_with_texts_that_are_gone_waits_for_the_end(run: Run, notes: Path) -> None:
    """A step would drop what stands further on, and is made again then."""
    notes.write_text("".join(f"a cat {at}\n" for at in range(3000)))
    run("search", "cat", str(notes))
    rows = np.load(kept_of(notes))
    others = "".join(f"on a mat {at}\n" for at in range(1500))
    notes.write_text(others + notes.read_text())
    assert run("search", "cat", str(notes)).stderr == b""
    assert np.array_equal(np.load(kept_of(notes))[1500:], rows)


def with_rows(kept: Path, rows: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> None:
    """An index with other vectors, and the checksum of these: anyone can do that."""
    sound = kept.read_bytes()
    content = rows.astype("<f4").tobytes() + sound[256 + rows.nbytes :]
    kept.write_bytes(re.sub(rb"adler32 \w{8}", b"adler32 %08x" % adler32(content), sound[:256]) + content)


@pytest.mark.sample(1)
def test_rows_that_no_search_makes_are_damage(run: Run, notes: Path) -> None:
    run("search", "cat", str(notes))
    sound = kept_of(notes).read_bytes()
    rows = np.load(kept_of(notes))
    for row in (1000 * rows[0], 1.002 * rows[0], 0.998 * rows[0], np.nan, np.inf, np.eye(8)[0] * 3e38):
        changed = rows.copy()
        changed[2] = row
        with_rows(kept_of(notes), changed)
        done = run("search", "cat", str(notes))
        assert done.stderr.decode() == f"note: {kept_of(notes)} is damaged: made anew\n"
        assert lines_of(done) == NEAREST
        assert kept_of(notes).read_bytes() == sound
    # A model may make nothing of a text.
    rows[2] = 0
    with_rows(kept_of(notes), rows)
    done = run("search", "-k1", "--min=0.1", "cat", str(notes))
    assert (lines_of(done), done.stderr) == (NEAREST[:1], b"")


def test_who_may_not_read_the_texts_may_not_read_their_vectors(sample: Path, run: Run, notes: Path) -> None:
    if is_for_windows(sample):
        pytest.skip("Windows has no such modes")
    for mode in (0o600, 0o640):
        notes.chmod(mode)
        run("search", "cat", str(notes))
        assert stat.S_IMODE(kept_of(notes).stat().st_mode) == mode
        kept_of(notes).unlink()


def test_vectors_of_other_texts_are_refused(run: Run, notes: Path) -> None:
    run("search", "cat", str(notes))
    rows = np.load(kept_of(notes))
    # The nearest and the farthest have changed places.
    rows[[1, 4]] = rows[[4, 1]]
    with_rows(kept_of(notes), rows)
    changed = kept_of(notes).read_bytes()
    done = run("search", "-k2", "cat", str(notes))
    assert (done.returncode, done.stdout) == (3, b"")
    said = complaint(done)
    assert said[0] == f"error: {kept_of(notes)} holds other vectors than this model's"
    assert "--index" in said[1]
    assert kept_of(notes).read_bytes() == changed
    assert lines_of(run("search", "--index", str(notes.with_name("own")), "cat", str(notes))) == NEAREST


def test_a_file_that_is_none_of_its_own_is_left_alone(run: Run, notes: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    for make in (kept_of(notes).symlink_to, lambda target: kept_of(notes).write_bytes(target.read_bytes())):
        make(mine)
        done = run("search", "cat", str(notes))
        assert lines_of(done) == NEAREST
        assert (
            done.stderr.decode()
            == f"note: the vectors are not kept: {kept_of(notes)} is not an index of embed search\n"
        )
        assert (mine.read_text(), kept_of(notes).read_text()) == ("mine", "mine")
        kept_of(notes).unlink()
    for index in (mine, tmp_path, Path("/dev/null")):
        done = run("search", "--index", str(index), "cat", str(notes))
        assert (done.returncode, complaint(done)[0]) == (3, f"error: {index} is not an index of embed search")
    assert mine.read_text() == "mine"


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(run: Run, notes: Path) -> None:
    done = run("search", "--index", str(notes.parent / "none/index"), "cat", str(notes))
    assert done.returncode == 7
    assert "cannot write to" in complaint(done)[0]
    # Where nobody asked for the file, one that cannot be made is a note: its name is taken by what is not a file.
    longest = notes.with_name("n" * (os.pathconf(notes.parent, "PC_NAME_MAX") - 12))
    notes.rename(longest)
    done = run("search", "cat", str(longest))
    assert lines_of(done) == NEAREST
    assert done.stderr.startswith(b"note: the vectors are not kept: cannot ")


def test_an_index_that_may_not_grow_is_given_up_once(sample: Path, notes: Path) -> None:
    if is_for_windows(sample):
        pytest.skip("Windows has no such limit")
    notes.write_text("".join(f"cat {number}\n" for number in range(2500)))
    command = [*command_of(sample), "search", "cat", str(notes)]
    limited = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (4096, 4096))
    done = subprocess.run(command, capture_output=True, check=False, preexec_fn=limited)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 10
    assert done.stderr == b"note: the vectors are not kept: cannot write the output: File too large\n"
    assert [*notes.parent.iterdir()] == [notes]


@pytest.mark.sample(13)
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "no query"),
        (("a", "b", "c"), 2, "one FILE at most: 'c' is another"),
        (("--queries", "q", "b", "c"), 2, "one FILE at most: 'c' is another"),
        (("-k", "0", "a"), 2, "'0' is not a number from 1 to 65535"),
        (("--nearest", "-1", "a"), 2, "'-1' is not a number from 1 to 65535"),
        (("-k",), 2, "-k needs a value"),
        (("--min", "-1.5", "a"), 2, "--min: '-1.5' is not a number from -1 to 1"),
        (("--min", "0x1", "a"), 2, "--min: '0x1' is not a number from -1 to 1"),
        (("--out", "npy", "a"), 2, "unknown option --out"),
        (("--text-field", "b", "a"), 2, "--text-field requires --jsonl"),
        (("a", "/nowhere/file"), 3, "cannot read /nowhere/file"),
        (("--queries", "/nowhere/file"), 3, "cannot read /nowhere/file"),
        (("--queries", "/dev/null"), 2, "/dev/null has no query"),
        (("a", "/dev/null"), 2, "no text: the input is empty"),
        (("--dim", "3", "a"), 2, "sample does not support that dimension"),
    ],
)
def test_what_makes_no_sense(run: Run, arguments: tuple[str, ...], code: int, words: str) -> None:
    done = run("search", *arguments, input=b"a\n")
    assert (done.returncode, done.stdout) == (code, b"")
    assert words in complaint(done)[0]


def test_a_bad_line_ends_it_and_nothing_is_kept(run: Run, notes: Path) -> None:
    notes.write_bytes(b"a cat\n\xff\n")
    done = run("search", "--strict", "cat", str(notes))
    assert (done.returncode, done.stdout) == (3, b"")
    assert complaint(done)[0].startswith("error: line 2 is not UTF-8")
    assert list(notes.parent.iterdir()) == [notes]
    done = run("search", "--strict", "--skip-bad", "cat", str(notes))
    assert lines_of(done) == [1]
    assert done.stderr.startswith(b"skipped: line 2")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_leaves_no_half_of_an_index(
    sample: Path, tmp_path: Path, number: signal.Signals
) -> None:
    command = [*command_of(sample), "search", "--index", str(tmp_path / "index"), "cat"]
    heeding = partial(signal.signal, number, signal.SIG_DFL)
    with subprocess.Popen(command, stdin=subprocess.PIPE, preexec_fn=heeding) as program:
        assert program.stdin is not None
        program.stdin.write(b"a cat\n" * 100)
        program.stdin.flush()
        while not list(tmp_path.iterdir()):
            time.sleep(0.01)
        program.send_signal(number)
        assert program.wait(60) == ended_by(sample, number)
    assert left_in(tmp_path) == []
