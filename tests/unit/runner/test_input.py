"""What goes into the program: arguments, lines, JSON lines, and what is wrong with them."""

import json
import resource
import subprocess
from pathlib import Path

import pytest
from tests.support.sample_program import Run, command_of, complaint, vectors_of

pytestmark = pytest.mark.tools("c++", "python", "sh")


def test_arguments_and_lines_and_a_file_give_the_same(run: Run, tmp_path: Path) -> None:
    texts = ["a cat", "the kitten sat on", "mat"]
    lines = "".join(f"{text}\n" for text in texts).encode()
    (tmp_path / "lines.txt").write_bytes(lines)
    expected = vectors_of(run(*texts).stdout)
    assert len(expected) == 3
    assert vectors_of(run(input=lines).stdout) == expected
    assert vectors_of(run("--input", str(tmp_path / "lines.txt")).stdout) == expected
    assert vectors_of(run(input=lines.rstrip(b"\n")).stdout) == expected
    assert vectors_of(run(input=lines.replace(b"\n", b"\r\n")).stdout) == expected
    assert vectors_of(run(input=b"\xef\xbb\xbf" + lines).stdout) == expected


def test_only_a_line_feed_ends_a_line(run: Run) -> None:
    done = run(input="a\u2028cat\von\x0cthe\n".encode())
    assert [json.loads(line)["text"] for line in done.stdout.splitlines()] == ["a\u2028cat\von\x0cthe"]


def test_an_empty_line_is_a_text(run: Run) -> None:
    done = run(input=b"a cat\n\nmat\n")
    assert [json.loads(line)["text"] for line in done.stdout.splitlines()] == ["a cat", "", "mat"]


def test_the_empty_string_has_a_vector(run: Run) -> None:
    done = run("")
    assert done.returncode == 0
    assert len(vectors_of(done.stdout)[0]) == 8


def test_order_is_kept_whatever_the_lengths(run: Run) -> None:
    texts = ["a " * (n * 7 % 5) + "cat" for n in range(300)]
    done = run("--batch-size=4", input="\n".join(texts).encode())
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["text"] for record in records] == texts
    alone = {text: vectors_of(run(text).stdout)[0] for text in set(texts)}
    for record in records:
        assert record["embedding"] == pytest.approx(alone[record["text"]], abs=1e-6)


def test_nul_and_control_characters_are_text(run: Run) -> None:
    done = run(input=b"a\0cat\x01\n")
    assert [json.loads(line)["text"] for line in done.stdout.splitlines()] == ["a\0cat\x01"]


def test_no_text_at_all_is_an_error(run: Run) -> None:
    for done in (run(input=b""), run("--jsonl", input=b"\n \n")):
        assert done.returncode == 2
        assert "no text" in complaint(done)[0]
        assert done.stdout == b""


def test_a_terminal_without_text_is_an_error(sample: Path) -> None:
    import pty

    _, terminal = pty.openpty()
    done = subprocess.run(command_of(sample), stdin=terminal, capture_output=True, check=False)
    assert done.returncode == 2
    assert "no text" in complaint(done)[0]


def test_a_closed_standard_input_is_an_error(sample: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" "$@" <&-', *command_of(sample)],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert "no text" in complaint(done)[0]


def test_what_is_not_utf8_is_replaced(run: Run) -> None:
    done = run(input=b"a \xff cat\n")
    assert [json.loads(line)["text"] for line in done.stdout.splitlines()] == ["a \ufffd cat"]
    assert json.loads(run(b"a \xff cat").stdout)[0]["text"] == "a \ufffd cat"


def test_what_is_not_utf8_is_refused_when_strict(run: Run) -> None:
    done = run("--strict", input=b"a cat\na \xff cat\n")
    assert done.returncode == 3
    assert "line 2 is not UTF-8" in complaint(done)[0]
    assert "0xff" in complaint(done)[0]
    # What came before has been answered.
    assert len(done.stdout.splitlines()) == 1


def test_an_argument_that_is_not_utf8_is_refused_when_strict(run: Run) -> None:
    assert run("--strict", b"a \xff cat").returncode == 3


def test_a_json_line_keeps_its_other_fields_untouched(run: Run) -> None:
    line = b'{"id": 12345678901234567890, "x": 1.10e5, "text": "a cat", "nested": {"b":[ 1 ]}}'
    done = run("--jsonl", input=line + b"\n")
    assert done.stdout.startswith(line[:-1] + b',"embedding":[')
    assert set(json.loads(done.stdout)) == {"id", "x", "text", "nested", "embedding"}
    assert json.loads(done.stdout)["embedding"] == vectors_of(run("a cat").stdout)[0]


def test_an_embedding_that_was_there_is_replaced(run: Run) -> None:
    done = run("--jsonl", input=b'{"embedding": [9], "text": "a cat", "id": 1}\n')
    record = json.loads(done.stdout)
    assert record["embedding"] == vectors_of(run("a cat").stdout)[0]
    assert done.stdout.count(b'"embedding"') == 1
    assert record["id"] == 1


def test_the_field_can_be_named(run: Run) -> None:
    done = run("--jsonl", "--text-field=body", input=b'{"body":"mat","text":"cat"}\n')
    assert json.loads(done.stdout)["embedding"] == vectors_of(run("mat").stdout)[0]


def test_blank_lines_between_objects_are_passed_over(run: Run) -> None:
    done = run("--jsonl", input=b'{"text":"a"}\n\n  \n{"text":"b"}')
    assert len(done.stdout.splitlines()) == 2


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{broken", "line 3 is not JSON"),
        (b"[1]", "line 3 is not a JSON object"),
        (b'{"body": "x"}', "line 3 has no field 'text'"),
        (b'{"text": 5}', "line 3 has no text in its field 'text'"),
        (b"[" * 100_000, "line 3 is not JSON"),
    ],
)
def test_a_bad_json_line_is_named_by_its_number(run: Run, line: bytes, words: str) -> None:
    done = run("--jsonl", input=b'{"text":"a"}\n{"text":"b"}\n' + line + b'\n{"text":"c"}\n')
    assert done.returncode == 3
    assert words in complaint(done)[0]
    assert len(done.stdout.splitlines()) == 2


def test_half_a_character_in_json_is_replaced_or_refused(run: Run) -> None:
    line = b'{"text": "a \\ud83d cat"}\n'
    done = run("--jsonl", input=line)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["embedding"] == vectors_of(run("a \ufffd cat").stdout)[0]
    assert run("--jsonl", "--strict", input=line).returncode == 3


def test_a_missing_input_file_is_named(run: Run) -> None:
    done = run("--input", "/nowhere/texts.txt")
    assert done.returncode == 3
    assert "/nowhere/texts.txt" in complaint(done)[0]


def test_a_folder_as_input_is_named(run: Run, tmp_path: Path) -> None:
    done = run("--input", str(tmp_path))
    assert done.returncode == 3
    assert "directory" in complaint(done)[0]


def test_answers_come_while_the_input_is_open(sample: Path) -> None:
    with subprocess.Popen(command_of(sample), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for text in ("a cat", "mat"):
            program.stdin.write(f"{text}\n".encode())
            program.stdin.flush()
            assert json.loads(program.stdout.readline())["text"] == text
        program.stdin.close()
        assert program.wait() == 0


def test_bad_lines_can_be_passed_over(run: Run) -> None:
    lines = b'{"text":"a"}\n{broken\n{"text":5}\n{"text":"b"}\n'
    done = run("--jsonl", "--skip-bad", input=lines)
    assert done.returncode == 0
    assert [json.loads(line)["text"] for line in done.stdout.splitlines()] == ["a", "b"]
    said = done.stderr.decode().splitlines()
    assert len(said) == 2
    assert said[0].startswith("skipped: line 2 is not JSON")
    assert said[1].startswith("skipped: line 3 has no text in its field 'text'")


def test_lines_that_are_not_utf8_can_be_passed_over(run: Run) -> None:
    done = run("--strict", "--skip-bad", input=b"a\n\xff\nb\n")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2
    assert b"skipped: line 2 is not UTF-8" in done.stderr


def test_when_every_line_is_bad_there_is_no_text(run: Run) -> None:
    done = run("--jsonl", "--skip-bad", input=b"{\n")
    assert done.returncode == 2
    assert b"no text" in done.stderr


def test_a_missing_id_is_a_bad_line(run: Run) -> None:
    done = run("--jsonl", "--id-field=id", input=b'{"text":"a"}\n')
    assert done.returncode == 3
    assert "line 1 has no field 'id'" in complaint(done)[0]


def test_options_may_stand_between_texts(run: Run) -> None:
    assert run("a cat", "--threads=1", "mat").stdout == run("a cat", "mat").stdout


def test_a_prefix_goes_before_each_text(run: Run) -> None:
    assert vectors_of(run("--prefix=query", "cat", "mat").stdout) == vectors_of(
        run("the cat", "the mat").stdout
    )
    # The text comes back as it was.
    assert json.loads(run("--prefix=query", "cat").stdout)[0]["text"] == "cat"
    assert vectors_of(run("--prefix=passage", "cat").stdout) == vectors_of(run("cat").stdout)


def test_fewer_tokens_can_count(run: Run) -> None:
    assert vectors_of(run("--max-length=4", "a cat sat").stdout) == vectors_of(run("a cat").stdout)


def test_many_keys_cost_no_more_than_their_number(run: Run) -> None:
    """80,000 keys once took 26 s of processor time, and four times as many sixteen times that."""
    names = ",".join(f'"key{number}":{number}' for number in range(80_000))
    line = f'{{{names},"text":"first","key7":"again","text":"a cat","id":1}}'
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = run("--jsonl", "--id-field", "id", input=line.encode())
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 6
    assert vectors_of(done.stdout) == vectors_of(run("--out", "jsonl", "a cat").stdout)
    whole = run("--jsonl", input=b'{"b":1,"text":"first","a":2,"b":3,"text":"a cat","a":4}').stdout
    assert list(json.loads(whole)) == ["b", "text", "a", "embedding"]
    assert {**json.loads(whole), "embedding": 0} == {"b": 3, "text": "a cat", "a": 4, "embedding": 0}
