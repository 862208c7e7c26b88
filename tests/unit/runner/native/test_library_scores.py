"""libembed of a reranker or a classifier: the scores that the program gives, from C and from Python."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.native import compile_features, compile_together
from tests.support.once import made_once
from tests.support.sample_program import run_program
from tests.support.scored import LABELS, write_scored

from edgepack.runner.native.build import lay_interfaces
from edgepack.runner.native.sources import library_sources, ort_encoder

pytestmark = pytest.mark.tools("c++", "python")

TEXTS = ["a cat", "the kitten sat", "", "a cat sat on the mat, and a mat"]
QUERY = "the cats"


def compile_library(folder: Path) -> None:
    sources = library_sources(ort_encoder("loaded"), ("scores",))
    compile_together(
        sources, folder / "libembed.so", "-O0", "-shared", "-fPIC", "-fvisibility=hidden", "-Werror"
    )


@pytest.fixture(scope="module", params=["rank", "classes"])
def bundle(
    request: pytest.FixtureRequest, native_sample: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    program = compile_features(tmp_path_factory.mktemp("program") / "embed", "scores", "serve")
    made = made_once(tmp_path_factory, "scored-library", compile_library)
    task: str = request.param
    folder = write_scored(native_sample, tmp_path_factory.mktemp(task) / "bundle", task, program)
    lay_interfaces(folder)
    (folder / "lib/libembed.so").write_bytes((made / "libembed.so").read_bytes())
    return folder


def python(bundle: Path, script: str, *flags: str) -> list[Any]:
    code = (
        f"import json, sys; sys.path.insert(0, {str(bundle / 'python')!r}); import edgepack_bundle\n{script}"
    )
    done = subprocess.run(
        [sys.executable, *flags, "-c", code], capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_scores_are_the_programs(bundle: Path) -> None:
    task = json.loads((bundle / "manifest.json").read_text())["model"]["task"]
    asked = ["--pairs"] if task == "rank" else ["--classify"]
    records = "".join(json.dumps({"query": QUERY, "text": text}) + "\n" for text in TEXTS)
    done = run_program(bundle, *asked, "--jsonl", "--out", "jsonl", input=records.encode())
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    expected = [
        [row["score"]] if task == "rank" else [row["scores"][label] for label in LABELS[task]] for row in rows
    ]
    query = repr(QUERY) if task == "rank" else None
    script = (
        f"made = edgepack_bundle.scores({TEXTS!r}, query={query})\n"
        f"one = edgepack_bundle.scores({TEXTS[0]!r}, query={query})\n"
        "print(json.dumps([[float(each) for each in row] for row in made]))\n"
        "print(json.dumps([float(each) for each in one]))\n"
        "print(json.dumps(edgepack_bundle.Bundle().labels))"
    )
    for flags in ((), ("-I", "-S")):
        made, one, labels = python(bundle, script, *flags)
        assert [pytest.approx(row, abs=1e-6) for row in made] == expected
        assert one == made[0]
        assert labels == list(LABELS[task])
    assert len({round(row[0], 6) for row in expected}) > 2


def test_a_classifier_takes_a_query_and_a_reranker_needs_one(bundle: Path) -> None:
    script = (
        "alone = edgepack_bundle.Bundle()\n"
        "for query in (None, 'mat'):\n"
        "    try:\n"
        "        print(json.dumps(float(alone.scores('a cat', query=query)[0])))\n"
        "    except edgepack_bundle.EmbedError as error:\n"
        "        print(json.dumps([error.code, str(error)]))\n"
    )
    without, together = python(bundle, script)
    if isinstance(without, list):
        assert without == [2, "sample is a reranker: it ranks texts by a query"]
    else:
        assert abs(without - together) > 1e-3


def test_fewer_dimensions_and_scores_do_not_go_together(bundle: Path) -> None:
    script = (
        "try:\n    edgepack_bundle.Bundle(dim=4).scores('a', query='b')\n"
        "except edgepack_bundle.EmbedError as error:\n    print(json.dumps([error.code, str(error)]))"
    )
    ((code, said),) = python(bundle, script)
    assert (code, said.partition(":")[0]) == (2, "scores take whole vectors")


@pytest.mark.parametrize("check", ["content", "once"])
def test_a_damaged_head_is_a_code(bundle: Path, check: str, tmp_path: Path) -> None:
    script = (
        "import os, shutil\n"
        f"folder = shutil.copytree({str(bundle)!r}, {str(tmp_path / 'copy')!r})\n"
        "path = os.path.join(folder, 'model', 'head.bin')\n"
        f"edgepack_bundle.Bundle(folder, check={check!r}).close()\n"
        "whole = open(path, 'rb').read()\n"
        "open(path, 'wb').write(bytes([whole[0] ^ 1]) + whole[1:])\n"
        f"try:\n    edgepack_bundle.Bundle(folder, check={check!r})\n"
        "except edgepack_bundle.EmbedError as error:\n    print(json.dumps([error.code, str(error)]))"
    )
    said = "model/head.bin is damaged: its content does not match its SHA-256"
    assert python(bundle, script) == [[4, said]]
