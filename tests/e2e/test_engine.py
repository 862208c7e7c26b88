"""Bundles with edgepack's own kernels, run as a device runs them."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.bundles import made_bundle
from tests.support.command import edgepack
from tests.support.embed_serve import running
from tests.support.small_models import write_small_bert
from tests.unit.models.outputs.test_colbert import write_stanford
from tests.unit.models.outputs.test_splade import write_masked

from edgepack import python_api
from edgepack.records.bundle import Bundle
from edgepack.verifier.gate import verification_texts

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(1800),
    pytest.mark.builds("of the real model, for the engine; no other file needs it"),
]

LARGEST_PROGRAM = 460_000
TEXTS = Path(__file__).parents[2] / "src/edgepack/verifier/data/texts.txt"


def write_splade(folder: Path) -> None:
    """A masked language model that its name calls a sparse encoder."""
    write_masked(folder, "bert")


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return made_bundle("linux-x86-fast", tmp_path_factory.mktemp("fast"))


@pytest.mark.slow
def test_ten_megabytes_pass_the_full_gate(tmp_path: Path) -> None:
    compact = made_bundle("linux-x86-fast", tmp_path, "--recipe", "int8-compact", "--gate", "full")
    assert compact.archive is not None and compact.archive.stat().st_size <= 10_000_000
    report = json.loads(compact.directory.with_name(f"{compact.directory.name}.report.json").read_text())
    assert report["verification"]["status"] == "passed"
    assert report["verification"]["mean_cosine"] >= 0.99
    # Another processor rounds some weights the other way, and the lowest of 200 moves by more than the mean.
    assert report["verification"]["min_cosine"] >= 0.965


@pytest.mark.slow
def test_eight_and_a_half_megabytes_hold_stsbenchmark_and_retrieval(tmp_path: Path) -> None:
    limits = {
        "min_cosine": 0.97,
        "min_agreement": 0.8,
        "min_top10": 0.8,
        "max_sts_loss": 0.005,
        "max_retrieval_loss": 0.02,
    }
    settings = [word for key, value in limits.items() for word in ("--set", f"model.{key}={value}")]
    tiny = made_bundle("linux-x86-fast", tmp_path, "--recipe", "int8-tiny", "--gate", "full", *settings)
    assert tiny.archive is not None and tiny.archive.stat().st_size <= 8_500_000


@pytest.mark.slow
def test_a_pruned_vocabulary_is_verified_when_built_and_later(tmp_path: Path) -> None:
    """By Python, whose settings are not words of a command line, and with passes behind it that run texts."""
    model, corpus = write_small_bert(tmp_path / "model"), tmp_path / "corpus.txt"
    corpus.write_text("\n".join(" ".join(text.split()) for text in verification_texts()[::2]))
    passes = [{"pass": "prune-vocabulary", "corpus": str(corpus)}, {"recipe": "int8-download"}]
    limits = ("min_cosine", "min_p1_cosine", "min_worst_cosine", "min_agreement", "min_top10")
    made = python_api.bundle(
        model,
        target="linux-x86-fast",
        output=tmp_path / "dist",
        settings={"model.recipe": passes, **{f"model.{each}": 0.01 for each in limits}},
        offline=True,
    )
    assert made.report.verification.same_tokens == 4200
    later = python_api.verify(made.archive, model=model, offline=True)
    assert (later.status, later.same_tokens) == ("passed", 0)


def raw(bundle: Bundle, text: str, *arguments: str) -> bytes:
    done = subprocess.run(
        [bundle.program, "--out", "raw", *arguments],
        input=text.encode(),
        capture_output=True,
        check=False,
        env={},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_small_verified_and_proved_on_each_level_that_this_processor_has(fast: Bundle) -> None:
    report = json.loads(fast.directory.with_name(f"{fast.directory.name}.report.json").read_text())
    assert report["verification"]["status"] == "passed"
    assert report["verification"]["mean_cosine"] >= 0.9985
    assert report["verification"]["batch_cosine"] == pytest.approx(1, abs=1e-6)
    assert fast.manifest["runtime"] is None
    assert fast.program.stat().st_size <= LARGEST_PROGRAM
    levels = {each["level"]: each["proved"] for each in report["proofs"]}
    assert {"sse2", "avx2"} <= {level for level, proved in levels.items() if proved}


@pytest.mark.slow
def test_neighbours_and_batches_change_no_bit(fast: Bundle) -> None:
    """Nothing is padded, so that texts of all lengths may stand together."""
    lines = TEXTS.read_text().splitlines() * 2
    order = list(range(len(lines)))
    random.Random(1).shuffle(order)
    shuffled = "".join(lines[at] + "\n" for at in order)
    alone = np.frombuffer(raw(fast, shuffled, "--batch-size", "1"), "<f4").reshape(len(lines), -1)
    for options in (["--batch-size", "32"], ["--batch-size", "7", "--threads", "1"], []):
        together = np.frombuffer(raw(fast, shuffled, *options), "<f4").reshape(len(lines), -1)
        assert np.array_equal(alone, together)


def test_threads_that_share_a_long_text_change_no_bit(fast: Bundle) -> None:
    text = " ".join(TEXTS.read_text().split()[:240])
    one, two, three = (
        subprocess.run(
            [fast.program, "--out", "raw", "--threads", threads, text],
            capture_output=True,
            check=True,
            env={},
        ).stdout
        for threads in ("1", "2", "3")
    )
    assert one == two == three
    assert len(one) > 1000


def test_empty_and_long_texts(fast: Bundle) -> None:
    made = np.frombuffer(raw(fast, "\n" + "word " * 5000 + "\nword\n"), "<f4").reshape(3, -1)
    assert np.linalg.norm(made, axis=1) == pytest.approx(1, abs=1e-5)


def test_a_damaged_plan_is_named(fast: Bundle, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(fast.directory, tmp_path / "copy"))
    model = copy / str(fast.manifest["model"]["file"])
    content = model.read_bytes()
    for damaged in (b"EDGEPLN9" + content[8:], content[:16] + b"\xff\xff\xff\x7f" + content[20:]):
        model.write_bytes(damaged)
        done = subprocess.run([copy / "embed", "hello"], capture_output=True, text=True, check=False, env={})
        assert done.returncode == 4, done.stderr
        assert "model.plan is damaged" in done.stderr


def test_a_recipe_that_the_engine_has_no_steps_for_is_refused_in_words(tmp_path: Path) -> None:
    done = edgepack(
        "bundle", "-t", "linux-x86-fast", "--recipe", "fp16", "-o", str(tmp_path / "out"), "--offline"
    )
    assert done.returncode == 3, done.stderr
    assert "int8 weights and activations by token, not recipe fp16 (it has no pass" in done.stderr
    assert "hint: --recipe int8" in done.stderr
    assert not list((tmp_path / "out").glob("*"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "asked"),
    [(write_stanford, "--multi-vector"), (write_splade, "--sparse")],
    ids=["ColBERT", "SPLADE"],
)
def test_other_outputs_are_verified(tmp_path: Path, write: Callable[[Path], object], asked: str) -> None:
    write(tmp_path / "splade-or-not")
    made = made_bundle("linux-x86-fast", tmp_path / "out", "--model", str(tmp_path / "splade-or-not"))
    report = json.loads(made.directory.with_name(f"{made.directory.name}.report.json").read_text())
    assert report["verification"]["status"] == "passed"
    done = subprocess.run(
        [made.program, asked, "--out", "json", "hello world"], capture_output=True, check=True, env={}
    )
    (said,) = json.loads(done.stdout)
    assert said[asked.removeprefix("--").replace("-", "_")]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["linux-arm64-fast", "linux-x86-fast"])
def test_other_forms_are_verified(tmp_path: Path, target: str) -> None:
    wanted = (
        "--recipe",
        "int8-download",
        "--set",
        "serve=true",
        "--set",
        "chunks=true",
        "--set",
        "polite=true",
        "--set",
        "library=true",
    )
    made = made_bundle(target, tmp_path / "out", *wanted)
    report = json.loads(made.directory.with_name(f"{made.directory.name}.report.json").read_text())
    assert report["verification"]["status"] == "passed"
    assert made.manifest["runner"]["serve"]
    assert os.access(made.program, os.X_OK)
    if target == "linux-x86-fast":
        check_chunks(made)


def check_chunks(made: Bundle) -> None:
    """Alone and together, by the program, its server and libembed, chunks of texts of all lengths have the same bits."""
    lines = TEXTS.read_text().splitlines()
    texts = [lines[0], "\n".join(lines[:40]), " ".join(lines[40:200]), ""]
    documents = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()

    def run(*arguments: str, input: bytes = documents) -> list[dict[str, Any]]:
        command = [str(made.program), "--jsonl", *arguments]
        done = subprocess.run(command, input=input, capture_output=True, check=True, env={})
        return [json.loads(line) for line in done.stdout.splitlines()]

    apart, late = run("--chunks", "90"), run("--chunks", "90", "--late")
    parts = "".join(json.dumps({"text": each["text"]}) + "\n" for each in apart).encode()
    assert [each["embedding"] for each in apart] == [each["embedding"] for each in run(input=parts)]
    places = [[(each["index"], each["start"], each["end"]) for each in rows] for rows in (apart, late)]
    assert places[0] == places[1] and len(places[0]) > 20
    # One chunk is the whole text, whatever its neighbours are; of several, each knows the others.
    moved = {each["index"] for each, other in zip(apart, late, strict=True) if each != other}
    assert moved == {1, 2}
    assert late == run("--chunks", "90", "--late", "--threads", "1", "--batch-size", "1")
    for rows, way in ((apart, "False"), (late, "True")):
        vectors = np.array([row["embedding"] for row in rows], "<f4")
        assert by_the_library(made, texts, way) == vectors.tobytes()
    with running(made.directory) as server:
        for rows, more in ((apart, {}), (late, {"late": True})):
            data = server.embed(texts, chunks=90, **more).json["data"]
            assert [{**each, "text": row["text"]} for each, row in zip(data, rows, strict=True)] == [
                {"object": "embedding", **row} for row in rows
            ]


def by_the_library(made: Bundle, texts: list[str], late: str) -> bytes:
    """Vectors of all chunks."""
    asked = f"[sys.stdout.buffer.write(bundle.chunks(text, 90, late={late})[1].tobytes()) for text in json.load(sys.stdin)]"
    program = f"import json, sys\nfrom edgepack_bundle import Bundle\nbundle = Bundle()\n{asked}"
    environment = {"PYTHONPATH": str(made.directory / "python")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(texts).encode(),
        capture_output=True,
        check=True,
        env=environment,
    )
    return done.stdout
