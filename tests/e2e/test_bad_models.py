"""Models that are wrong in themselves, through the command line: two clear lines, an exit code, and nothing half-made."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file
from tests.support.berts import write_bert
from tests.support.bombs import archive
from tests.support.checkpoints import change
from tests.support.command import edgepack
from tests.support.families import write_family
from tests.support.tiny import tokenizer_document, write_json

pytestmark = pytest.mark.e2e

MODEL, UNSUPPORTED = 5, 6
"""Exit codes of docs/commands.md: a model that is broken, and one that edgepack does not take."""


def a_config_that_contradicts_its_weights(folder: Path) -> Path:
    write_bert(folder)
    change(folder / "config.json", intermediate_size=64)
    return folder


def a_missing_shard(folder: Path) -> Path:
    write_bert(folder)
    tensors = sorted(load_file(folder / "model.safetensors").items())
    (folder / "model.safetensors").unlink()
    first, second = (f"model-0000{number}-of-00002.safetensors" for number in (1, 2))
    save_file(dict(tensors[::2]), folder / first)
    places = {name: (first, second)[at % 2] for at, (name, _) in enumerate(tensors)}
    write_json(folder / "model.safetensors.index.json", {"weight_map": places})
    return folder


def a_tokenizer_of_another_vocabulary(folder: Path) -> Path:
    write_bert(folder)
    document = tokenizer_document()
    document["model"]["vocab"] |= {f"word{number}": 10 + number for number in range(90)}
    write_json(folder / "tokenizer.json", document)
    return folder


class Touches:
    """What a pickle can say: call this when you are read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, (str(self.path),)


def a_pickle_with_code(folder: Path) -> Path:
    write_bert(folder)
    (folder / "model.safetensors").unlink()
    code = pickle.dumps({"weight": Touches(folder.parent / "run")}, protocol=2)
    (folder / "pytorch_model.bin").write_bytes(archive(code))
    return folder


def an_unknown_architecture(folder: Path) -> Path:
    write_bert(folder)
    change(folder / "config.json", model_type="brontosaurus", architectures=["BrontosaurusModel"])
    return folder


def a_decoder_that_is_no_embedder(folder: Path) -> Path:
    write_family(folder, "qwen3")
    return folder


BAD: dict[Callable[[Path], Path], tuple[int, str]] = {
    a_config_that_contradicts_its_weights: (MODEL, "config.json requires [64]"),
    a_missing_shard: (MODEL, "model-00002-of-00002.safetensors"),
    a_tokenizer_of_another_vocabulary: (MODEL, "tokenizer"),
    a_pickle_with_code: (UNSUPPORTED, "nothing of it was run"),
    an_unknown_architecture: (UNSUPPORTED, "brontosaurus"),
    a_decoder_that_is_no_embedder: (UNSUPPORTED, "a model that generates text (qwen3)"),
}
"""What is wrong → the exit code, and what the error line says."""
COMMANDS = ("inspect", "bundle")


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("bad", BAD, ids=lambda made: made.__name__)
def test_two_lines_and_nothing_half_made(command: str, bad: Callable[[Path], Path], tmp_path: Path) -> None:
    code, words = BAD[bad]
    model, out, temporary = bad(tmp_path / "model"), tmp_path / "out", tmp_path / "temporary"
    temporary.mkdir()
    given: tuple[str, ...] = (str(model),)
    if command == "bundle":
        given = ("-t", "linux-x86-min", "--offline", "-m", str(model), "-o", str(out))
    before = sorted(model.rglob("*"))
    done = edgepack(command, *given, env={"TMPDIR": str(temporary)})
    assert done.returncode == code, done.stderr
    lines = done.stderr.strip().splitlines()
    error, hint = lines[-2:]
    assert error.startswith("error: "), done.stderr
    assert words in error, done.stderr
    assert hint.startswith("hint: "), done.stderr
    assert sum(line.startswith(("error: ", "hint: ")) for line in lines) == 2
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not out.exists()
    assert not (tmp_path / "run").exists()
    assert list(temporary.iterdir()) == []
    assert sorted(model.rglob("*")) == before


def test_the_pickle_does_run_where_nobody_looks(tmp_path: Path) -> None:
    """Else nothing would have been kept from running."""
    pickle.loads(pickle.dumps(Touches(tmp_path / "run")))
    assert (tmp_path / "run").is_dir()
