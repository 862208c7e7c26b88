"""The program's own options: what it says of itself, its self-test, and arguments that make no sense."""

import json
import shutil
from pathlib import Path

import pytest
from tests.support.golden import matches_golden
from tests.support.sample_program import (
    Run,
    complaint,
    is_for_windows,
    run_program,
    tokenizer_of,
    vectors_of,
)
from tests.unit.runner.conftest import Programs

pytestmark = pytest.mark.tools("c++", "python")


def test_help_is_what_the_golden_file_says(run: Run, update_golden: bool) -> None:
    done = run("--help")
    assert done.returncode == 0
    matches_golden("embed-help.txt", done.stdout.decode(), update=update_golden)


def test_a_program_without_a_server_says_so(copy: Path, program_with: Programs, update_golden: bool) -> None:
    program, bundle = program_with(), copy
    shutil.copy(program, bundle)
    done = run_program(bundle, "serve")
    assert done.returncode == 2
    assert "without a server" in complaint(done)[0]
    assert "--set serve=true" in complaint(done)[1]
    said = run_program(bundle, "--help").stdout.decode()
    matches_golden("embed-help-without-server.txt", said, update=update_golden)
    assert b"WS2_32" not in program.read_bytes()
    assert json.loads(run_program(bundle, "--", "serve").stdout)[0]["text"] == "serve"


def test_version_names_the_bundle(run: Run) -> None:
    assert run("--version").stdout == b"embed 0 (sample)\n"


def test_info_says_what_the_bundle_is(run: Run, sample: Path) -> None:
    said = run("--info").stdout.decode()
    assert "8 dimensions" in said
    assert "6 tokens at most" in said
    assert ("windows x86_64" if is_for_windows(sample) else "linux x86_64") in said


def test_info_as_json_has_sizes_in_place_of_files(run: Run, sample: Path) -> None:
    said = json.loads(run("--info", "--json").stdout)
    assert said["model"]["dimension"] == 8
    assert "files" not in said
    windows = is_for_windows(sample)
    file = sample / "embed.exe" if windows else next((sample / "lib").iterdir())
    assert said["sizes"]["runner" if windows else "runtime"] == file.stat().st_size


def test_similarity_is_the_cosine(run: Run) -> None:
    first, second = vectors_of(run("a cat", "the kitten").stdout)
    cosine = sum(a * b for a, b in zip(first, second, strict=True))
    assert float(run("--similarity", "a cat", "the kitten").stdout) == pytest.approx(cosine, abs=1e-5)
    assert float(run("--similarity", "a cat", "a cat").stdout) == pytest.approx(1, abs=1e-5)


@pytest.mark.sample(1)
def test_a_warm_up_without_a_gpu_says_that_there_is_nothing_to_make_ready(run: Run) -> None:
    done = run("--warmup")
    assert done.returncode == 0
    lines = done.stdout.decode().splitlines()
    assert lines[0] == ("nothing to warm up: this bundle is for the CPU; nothing is compiled or cached")
    assert "lowest cosine 1.0" in lines[1], "the vectors are compared all the same"
    assert json.loads(run("--warmup", "--json").stdout)["min_cosine"] > 0.999


@pytest.mark.sample(1)
def test_the_self_test_passes_on_a_sound_bundle(run: Run) -> None:
    done = run("--self-test")
    assert done.returncode == 0, done.stderr
    assert "self-test passed" in done.stdout.decode()
    said = json.loads(run("--self-test", "--json").stdout)
    assert said["texts"] == 3
    assert said["min_cosine"] > 0.999999


def test_the_self_test_fails_on_other_vectors(copy: Path) -> None:
    golden = json.loads((copy / "golden.json").read_text())
    golden["vectors"][1][0] += 0.5
    replace(copy, "golden.json", json.dumps(golden).encode())
    done = run_program(copy, "--self-test")
    assert done.returncode == 6
    assert "text 2" in complaint(done)[0]
    assert done.stdout == b""


def test_the_self_test_fails_on_vectors_that_are_not_numbers(copy: Path) -> None:
    golden = json.loads((copy / "golden.json").read_text())
    golden["vectors"][0] = [float("nan")] * 8
    replace(copy, "golden.json", json.dumps(golden).encode())
    assert run_program(copy, "--self-test").returncode == 6


def test_the_self_test_reads_every_file(copy: Path) -> None:
    path = copy / tokenizer_of(copy)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    done = run_program(copy, "--self-test")
    assert done.returncode == 4
    assert f"{tokenizer_of(copy)} is damaged" in complaint(done)[0]


@pytest.mark.sample(2)
@pytest.mark.parametrize("content", [b"", b"{}", b'{"texts": [], "vectors": [], "tolerance": 1}'])
def test_a_golden_file_that_is_none_is_named(copy: Path, content: bytes) -> None:
    replace(copy, "golden.json", content)
    done = run_program(copy, "--self-test")
    assert done.returncode == 4
    assert "golden.json" in complaint(done)[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--nonsense", "a"), "unknown option --nonsense"),
        (("--info=yes",), "--info takes no value, not 'yes'"),
        (("--out", "csv", "a"), "csv"),
        (("--dtype", "f32, f16", "a"), "'f32, f16' is none of f32"),
        (("--batch-size", "0", "a"), "'0' is not a number"),
        (("--threads", "many", "a"), "'many' is not a number"),
        (("--similarity", "a"), "--similarity needs two values"),
        (("--info", "--self-test"), "--self-test cannot be used with --info"),
        (("--info", "a"), "--info takes no texts"),
        (("--self-test", "--input", "x"), "--self-test takes no texts"),
        (("--json", "a"), "--json requires"),
        (("--jsonl", "a"), "cannot be used with --jsonl"),
        (("--text-field", "body"), "--text-field requires --jsonl"),
        (("--id-field", "id"), "--id-field requires --jsonl"),
        (("--jsonl", "--id-field", "embedding"), "--id-field cannot be"),
        (("--skip-bad",), "--skip-bad requires --jsonl or --strict"),
        (("--out=table", "--dtype=int8", "a"), "--dtype does not apply"),
        (("--info", "--dtype=f16"), "--info writes no vectors"),
        (("--self-test", "--prefix=query"), "--prefix cannot be used with --self-test"),
        (("--similarity", "a", "b", "--out=json"), "--similarity writes no vectors"),
        (("--dim=3", "a"), "sample does not support that dimension"),
        (("--dim=9", "a"), "sample does not support that dimension"),
        (("--max-length=7", "a"), "the model takes 6 tokens at most"),
        (("--max-length=2", "a"), "leaves no room"),
    ],
)
def test_arguments_that_make_no_sense(run: Run, arguments: tuple[str, ...], words: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert words in complaint(done)[0]
    assert done.stdout == b""


def test_a_text_that_looks_like_an_option_goes_after_two_dashes(run: Run) -> None:
    texts = [record["text"] for record in json.loads(run("a", "--", "--info", "b").stdout)]
    assert texts == ["a", "--info", "b"]


def replace(folder: Path, name: str, content: bytes) -> None:
    """Put other content into a file of a bundle and its digest into the manifest."""
    import hashlib

    (folder / name).write_bytes(content)
    manifest = json.loads((folder / "manifest.json").read_text())
    for entry in manifest["files"]:
        if entry["path"] == name:
            entry.update(size=len(content), sha256=hashlib.sha256(content).hexdigest())
    (folder / "manifest.json").write_text(json.dumps(manifest))
