"""What a text's vector depends on, and what a device lacks, said before a model is loaded."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.sample_program import Run, complaint, library_of, run_program, vectors_of
from tests.unit.runner.test_program import replace

from edgepack.files.elf import glibc_floor

pytestmark = pytest.mark.tools("c++", "python")


@pytest.fixture(scope="module")
def sample(native_sample: Path) -> Path:
    """Of Linux alone: of its libraries, and of batches, whose code is the same on Windows."""
    return native_sample


@pytest.mark.parametrize("batch_size", ["1", "2", "5"])
def test_the_batch_does_not_move_a_vector(run: Run, batch_size: str) -> None:
    texts = ["a cat sat on the mat", "mat", "", "the kitten", "a a a"]
    alone = [vectors_of(run(text).stdout)[0] for text in texts]
    together = vectors_of(run("--batch-size", batch_size, *texts).stdout)
    assert np.array(together) == pytest.approx(np.array(alone), abs=1e-6)


def test_texts_are_truncated_to_the_length_of_the_manifest(run: Run) -> None:
    # Six tokens, two of them special: four words count.
    first, same, other = vectors_of(run("a cat sat on", "a cat sat on mat mat", "a cat sat mat").stdout)
    assert first == same
    assert first != other


def with_model(bundle: Path, **said: Any) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["model"] |= said
    (bundle / "manifest.json").write_text(json.dumps(manifest))


def test_a_model_that_was_not_trained_for_fewer_numbers_says_why(copy: Path) -> None:
    with_model(copy, matryoshka=None)
    assert run_program(copy, "--dim", "8", "a").returncode == 0
    message, hint = complaint(run_program(copy, "--dim", "4", "a"))
    assert "sample does not support shorter vectors" in message and "no Matryoshka training" in hint
    with_model(copy, matryoshka={"dimensions": [2, 4], "layer_norm": False})
    assert complaint(run_program(copy, "--dim", "3", "a"))[1] == "hint: it supports 2, 4, 8"


def test_after_a_layer_normalisation_vectors_are_centred(copy: Path) -> None:
    whole = np.array(vectors_of(run_program(copy, "a cat").stdout)[0])
    with_model(copy, matryoshka={"dimensions": [4], "layer_norm": True})
    centred = (whole - whole.mean())[:4]
    found = np.array(vectors_of(run_program(copy, "--dim", "4", "a cat").stdout)[0])
    assert found == pytest.approx(centred / np.linalg.norm(centred), abs=1e-5)
    # Nothing is cut: these are the vectors of whoever names no length, as the server's and JavaScript's are.
    assert vectors_of(run_program(copy, "--dim", "8", "a cat").stdout)[0] == pytest.approx(whole, abs=1e-6)


def test_a_processor_that_lacks_something(copy: Path) -> None:
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["runtime"]["requires"] = ["quantum"]
    (copy / "manifest.json").write_text(json.dumps(manifest))
    done = run_program(copy, "a cat")
    assert (done.returncode, done.stdout) == (5, b"")
    assert "this device's processor lacks quantum" in complaint(done)[0]


@pytest.mark.parametrize("what", ["processor", "C library", "nothing"])
def test_a_library_that_does_not_load_is_said_in_the_loaders_words(copy: Path, what: str) -> None:
    name = library_of(copy)
    content = bytearray((copy / name).read_bytes())
    newest = f"GLIBC_{glibc_floor(copy / name)}".encode() + b"\0"
    if what == "processor":
        content[18:20] = (183).to_bytes(2, "little")
    changed = {
        "processor": bytes(content),
        "C library": bytes(content).replace(newest, b"GLIBC_9" + newest[7:]),
        "nothing": b"not a library" * 10,
    }[what]
    (copy / name).unlink()
    replace(copy, name, changed)
    done = run_program(copy, "a cat")
    assert done.returncode == 5
    message, hint = complaint(done)
    assert message.startswith("error: the model does not load: ")
    assert ("GLIBC_9" in message) == (what == "C library") and "--self-test" in hint
