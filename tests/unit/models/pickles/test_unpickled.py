"""Pickles of strangers: few bytes that would take all time or memory, or change the reader, are damage, said at once."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.support.bombs import BOMBS, HEADS, TENSOR, archive, dictionary, text, twice
from tests.support.checkpoints import write_encoder
from tests.support.recorded import RECORD
from tests.support.tiny import write_json
from tests.support.torch_files import write_torch_file

from edgepack.errors import ModelError
from edgepack.models.pickles import unpickled
from edgepack.models.pickles.unpickled import RebuiltObject, read_pickle
from edgepack.models.read.pickled import NAMES
from edgepack.models.read.safetensors import open_tensors

pytestmark = pytest.mark.tools("python", "prlimit")

BIN, HEAD = "pytorch_model.bin", "model_head.pkl"

APART = """
import resource, sys
from pathlib import Path
from edgepack.errors import EdgepackError
from edgepack.models.heads.setfit import linear_layer
from edgepack.models.read.safetensors import open_tensors
resource.setrlimit(resource.RLIMIT_CPU, (50, 50))
resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))
for name in sys.argv[1:]:
    try:
        (linear_layer if name.endswith(".pkl") else open_tensors)(Path(name))
        print("read")
    except EdgepackError as error:
        print(type(error).__name__, error.message, error.hint, sep=": ")
"""


def read_apart(*files: Path) -> list[str]:
    """What is said of files, one after the other, by one process that is ended if it takes long or much."""
    done = subprocess.run(
        [sys.executable, "-c", APART, *map(str, files)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", BOMBS)
def test_a_checkpoint_that_takes_all_time_or_memory_is_damage(tmp_path: Path, name: str) -> None:
    (tmp_path / BIN).write_bytes(archive(BOMBS[name]))
    (said,) = read_apart(tmp_path / BIN)
    if said != "read":
        assert said.startswith((f"ModelError: {BIN}", f"UnsupportedModelError: {BIN}"))
        assert "fetch the model again" in said or "trust it" in said


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", HEADS)
def test_a_head_that_takes_all_time_or_memory_is_damage(tmp_path: Path, name: str) -> None:
    (tmp_path / HEAD).write_bytes(HEADS[name])
    (said,) = read_apart(tmp_path / HEAD)
    assert said.startswith((f"ModelError: {HEAD}", f"UnsupportedModelError: {HEAD}"))


def test_no_pickle_changes_how_the_next_is_read(tmp_path: Path) -> None:
    sound = RECORD / HEAD
    files = [sound]
    for at, name in enumerate(("a class's attribute", "a function's attribute", "a state in two")):
        files += [tmp_path / f"{at}.pkl", sound]
        files[-2].write_bytes(HEADS[name])
    said = read_apart(*files)
    assert said[::2] == ["read"] * 4
    assert all("cannot be read" in each or "holds no" in each for each in said[1::2])


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("file", "content"),
    [
        (BIN, archive(dictionary(twice(40)))),
        (HEAD, HEADS["a text that doubles"]),
        (HEAD, HEADS["a class's attribute"]),
    ],
    ids=["hash", "text", "class"],
)
def test_inspect_ends_with_two_lines(tmp_path: Path, file: str, content: bytes) -> None:
    folder = write_encoder(tmp_path / "model")
    if file == BIN:
        (folder / "model.safetensors").unlink()
    else:
        kinds = {"": "Transformer", "1_Pooling": "Pooling"}
        write_json(
            folder / "modules.json",
            [
                {"idx": at, "path": path, "type": f"sentence_transformers.models.{kind}"}
                for at, (path, kind) in enumerate(kinds.items())
            ],
        )
        write_json(folder / "1_Pooling/config.json", {"pooling_mode_mean_tokens": True})
    (folder / file).write_bytes(content)
    done = subprocess.run(
        [
            "prlimit",
            "--data=4294967296",
            "--cpu=60",
            "--",
            sys.executable,
            "-m",
            "edgepack",
            "inspect",
            folder,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == ModelError.exit_code, done.stderr
    last = done.stderr.strip().splitlines()[-2:]
    assert last[0].startswith(f"error: {file} ") and last[1].startswith("hint: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("instead", "seconds"), [("'x' * (2 << 30)", 60), ("sum(range(10 ** 12))", 0.5)], ids=["memory", "time"]
)
def test_what_the_rules_would_miss_ends_at_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instead: str, seconds: float
) -> None:
    """A reader that takes all there is, in the machine's place."""
    start = (
        "import sys; sys.path.append(sys.argv.pop(1)); import machine as m; "
        f"m.answer = lambda *_: {instead}; m.main()"
    )
    monkeypatch.setattr(unpickled, "START", start)
    monkeypatch.setattr(unpickled, "SECONDS", seconds)
    write_torch_file(tmp_path / BIN, {"a": np.ones(2, np.float32)})
    with pytest.raises(ModelError, match="takes more memory or time than any model's"):
        open_tensors(tmp_path / BIN)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        {"document": {}, "members": {}},
        {"document": ["x", 1], "members": {}},
        {"document": ["d", [["t"], 1]], "members": {}},
        {"document": ["m", "a", 1, None], "members": {}},
        {"document": ["b", "?"], "members": {}},
        {"document": 1, "members": {"a": [1]}},
        {"document": json.loads('["t",' * 40 + '["t"]' + "]" * 40), "members": {}},
    ],
    ids=str,
)
def test_what_comes_back_is_checked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    monkeypatch.setattr(unpickled, "answered", lambda path, question: json.dumps(answer))
    with pytest.raises(ModelError, match="cannot be read") as caught:
        read_pickle(tmp_path / BIN, NAMES)
    assert caught.value.hint


def test_what_a_model_s_pickle_names_is_data(tmp_path: Path) -> None:
    (tmp_path / BIN).write_bytes(archive(b"\x80\x02}" + text("w") + TENSOR + b"s."))
    made = read_pickle(tmp_path / BIN, NAMES, archive=True)
    assert isinstance(made.document["w"], RebuiltObject)
    assert list(made.members) == ["0"]
