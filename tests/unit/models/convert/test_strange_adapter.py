"""LoRA adapters of strangers: what contradicts itself, is of no size, or would take for ever, is an error at once."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.tiny import write_json

from edgepack.errors import EdgepackError, ModelError
from edgepack.models.convert.adapter import CONFIG, Adapter, _alphas, _scale
from edgepack.models.find.adapter import merged_model
from edgepack.models.read.safetensors import TensorFile, open_tensors
from edgepack.plugins.context import HostContext

LAYER = "encoder.layer.0.attention.self.query"
QUERY = f"{LAYER}.weight"
DOWN, UP = (f"base_model.model.{LAYER}.lora_{half}.weight" for half in "AB")
LENGTHS = f"base_model.model.{LAYER}.lora_magnitude_vector.weight"
WIDTH = 8
Tensors = Mapping[str, np.ndarray]


def filled(*shape: int, by: float = 0.1) -> np.ndarray:
    return np.full(shape, by, np.float32)


SOUND = {DOWN: filled(2, WIDTH), UP: filled(WIDTH, 2)}


def packed(header: object, content: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content


def as_file(tensors: Tensors) -> bytes:
    header, end = {}, 0
    for name, array in tensors.items():
        start, end = end, end + array.nbytes
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [start, end]}
    return packed(header, b"".join(array.tobytes() for array in tensors.values()))


def an_adapter(folder: Path, tensors: Tensors | bytes = SOUND, **settings: Any) -> Path:
    """An adapter's folder, its base model beside it."""
    base = folder.with_name("base")
    for each in (base, folder):
        each.mkdir(exist_ok=True)
    write_json(base / "config.json", {})
    (base / "model.safetensors").write_bytes(as_file({QUERY: filled(WIDTH, WIDTH)}))
    content = tensors if isinstance(tensors, bytes) else as_file(tensors)
    (folder / "adapter_model.safetensors").write_bytes(content)
    write_json(
        folder / CONFIG,
        {"peft_type": "LORA", "lora_alpha": 4, "base_model_name_or_path": str(base), **settings},
    )
    return folder


def refused(folder: Path, context: HostContext) -> str:
    with pytest.raises(EdgepackError) as caught:
        merged_model(folder, context=context)
    assert caught.value.hint
    assert not list((context.store.root / "merged-adapter").glob("*/model.safetensors"))
    return caught.value.message


OTHER = DOWN.replace("model.encoder", "model.x.encoder")
TENSORS: dict[str, tuple[Tensors | bytes, str]] = {
    "no rank": ({DOWN: filled(0, WIDTH), UP: filled(WIDTH, 0)}, "the adapter's change of"),
    "no axes": ({DOWN: filled(), UP: filled()}, "the adapter's change of"),
    "one axis": ({DOWN: filled(WIDTH), UP: filled(WIDTH)}, "the adapter's change of"),
    "three axes": ({DOWN: filled(1, 2, WIDTH), UP: filled(1, WIDTH, 2)}, "the adapter's change of"),
    "two ranks": ({DOWN: filled(2, WIDTH), UP: filled(WIDTH, 3)}, "the adapter's change of"),
    "a product of 360 GB": ({DOWN: filled(1, 300_000), UP: filled(300_000, 1)}, "the base model has"),
    "NaN": ({DOWN: filled(2, WIDTH, by=np.nan), UP: filled(WIDTH, 2)}, "NaN or infinite"),
    "a product that is infinite": (
        {DOWN: filled(2, WIDTH, by=3e38), UP: filled(WIDTH, 2, by=3e38)},
        "not finite",
    ),
    "one half": ({DOWN: filled(2, WIDTH)}, "one half of the change"),
    "the other half": ({UP: filled(WIDTH, 2)}, "one half of the change"),
    "lengths alone": ({LENGTHS: filled(WIDTH)}, "one half of the change"),
    "lengths of other rows": ({**SOUND, LENGTHS: filled(WIDTH - 1)}, "has shape [7]"),
    "one length": ({**SOUND, LENGTHS: filled(1)}, "has shape [1]"),
    "one tensor under two names": ({**SOUND, OTHER: filled(2, WIDTH)}, "of the base model twice"),
    "a name of two million letters": ({"a." * 1_000_000 + "w": filled(1)}, "with 2000001 letters"),
    "a name with a path": ({"../../etc/passwd": filled(1)}, "which model.safetensors of its base model"),
    "a shape of 300,000 axes": (
        packed({DOWN: {"dtype": "F32", "shape": [1 << 62] * 300_000, "data_offsets": [0, 0]}}),
        "a malformed header",
    ),
    "a shape whose numbers are none in 64 bits": (
        packed(
            {
                DOWN: {"dtype": "F32", "shape": [1 << 61, WIDTH], "data_offsets": [0, 0]},
                UP: {"dtype": "F32", "shape": [WIDTH, 1 << 61], "data_offsets": [0, 0]},
            }
        ),
        "does not match its shape",
    ),
    "a shape below zero": (
        packed({DOWN: {"dtype": "F32", "shape": [-2, -8], "data_offsets": [0, 0]}}),
        "a malformed header",
    ),
    "numbers before the file": (
        packed({DOWN: {"dtype": "F32", "shape": [1, 1], "data_offsets": [-8, -4]}}),
        "a malformed header",
    ),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_that_are_refused(name: str, tmp_path: Path, context: HostContext) -> None:
    tensors, words = TENSORS[name]
    assert words in refused(an_adapter(tmp_path / "adapter", tensors), context)


@pytest.mark.parametrize(
    "settings",
    [
        *({"lora_alpha": alpha} for alpha in (None, "nan", [1], True, float("nan"), float("inf"), 10**400)),
        *({"alpha_pattern": pattern} for pattern in ([1], "query", {"query": "x"}, {"(": 3}, {"": 3})),
        *({"base_model_name_or_path": path} for path in ("a\0b", "a" * 5000, "~nosuchuser/x", ["a"], ".")),
        *({"base_model_name_or_path": path} for path in ("\ud800", "https://127.0.0.1/x", "../..")),
        *({"base_model_name_or_path": "a/b", "revision": revision} for revision in (["x"], "x@y\n../..")),
    ],
    ids=lambda settings: str(settings)[:60],
)
def test_settings_that_are_refused(settings: dict[str, Any], tmp_path: Path, context: HostContext) -> None:
    refused(an_adapter(tmp_path / "adapter", **settings), context)


APART = """
import resource, sys
from pathlib import Path
from edgepack.errors import EdgepackError
from edgepack.models.convert.adapter import merge_adapter
from edgepack.models.read.model_folder import ModelFolder
from edgepack.models.read.safetensors import TensorFile, open_tensors
resource.setrlimit(resource.RLIMIT_CPU, (50, 50))
try:
    merge_adapter(open_tensors(Path(sys.argv[1])), ModelFolder(directory=Path(sys.argv[2])), Path(sys.argv[3]))
except EdgepackError as error:
    print(type(error).__name__, error.message)
"""


@pytest.mark.tools("python")
def test_a_pattern_that_takes_for_ever_is_refused(tmp_path: Path) -> None:
    adapter = an_adapter(tmp_path / "adapter", alpha_pattern={r"(([a-zA-Z.0-9])+.?)+\d!": 3})
    files = (tmp_path / "base/model.safetensors", adapter, tmp_path / "merged")
    done = subprocess.run(
        [sys.executable, "-c", APART, *map(str, files)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.startswith("UnsupportedModelError adapter_config.json: alpha_pattern has ")


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("query", True),
        ("self.query", True),
        (r"self\.query", True),
        (LAYER, True),
        (f"^{LAYER}", True),
        ("^query", False),
        ("ery", False),
        ("key", False),
    ],
)
def test_alpha_of_a_module_is_as_in_peft(
    pattern: str, meant: bool, tmp_path: Path, context: HostContext
) -> None:
    merged = merged_model(an_adapter(tmp_path / "adapter", alpha_pattern={pattern: 40}), context=context)
    found = open_tensors(merged / "model.safetensors").read(QUERY, (WIDTH, WIDTH))
    np.testing.assert_allclose(found, 0.1 + (20 if meant else 2) * 0.02, rtol=1e-6)


def test_the_first_key_that_means_a_module_counts_however_many_there_are(tmp_path: Path) -> None:
    """Each module was compared with all keys: 460,000, as a file of 4 MiB may have, took hours."""
    alphas = _alphas(
        {"alpha_pattern": {**{f"x{at}": 1 for at in range(460_000)}, f"^{LAYER}": 5, "query": 7, LAYER: 9}}
    )
    adapter = Adapter(
        tensors=TensorFile(path=tmp_path, tensors={}), settings={}, transposed=False, alphas=alphas
    )
    began = time.process_time()
    assert {_scale(adapter, LAYER, 1) for _ in range(1_000)} == {5}
    assert _scale(adapter, "another.query", 1) == 7
    assert _scale(adapter, "another.key", 1) == 8
    assert time.process_time() - began < 2
    twice = _alphas({"alpha_pattern": {"a.b": 1, r"a\.b": 2, "key": 3}})
    assert _scale(replace(adapter, alphas=twice), "another.key", 1) == 3


def test_an_adapter_that_was_fetched_names_no_folder_of_this_machine(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = an_adapter(tmp_path / "adapter")
    assert (merged_model(adapter, context=context) / "model.safetensors").is_file()
    monkeypatch.setenv("HOME", str(tmp_path))
    for place in (str(tmp_path / "base"), os.path.relpath(tmp_path / "base"), "~/base", "../base"):
        an_adapter(adapter, base_model_name_or_path=place)
        with pytest.raises(ModelError, match=r"no model of the hub|does not name a model of the hub"):
            merged_model(adapter, fetched=True, context=context)
