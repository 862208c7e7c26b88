"""The proof runs in a process that has nothing but what is shipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgepack.errors import ProofError
from edgepack.foundry import prove as module
from edgepack.foundry.prove import prove
from edgepack.plugins.context import HostContext
from edgepack.records import ModelSource, Operators, Pooling, PreparedModel, RuntimeArtifact

BINDING = """
import os, sys
class Session:
    def __init__(self, library, model, threads=1):
        assert not os.environ.keys() - {"LC_CTYPE"}, os.environ
        assert not any("site-packages" in path for path in sys.path), sys.path
        self.text = model.read_text()
        if "lacks" in self.text:
            raise RuntimeError("session: Failed to find kernel for com.microsoft.QAttention(1) (node Attention_0)")
    def run(self, ids, mask, types=None):
        assert len(ids[0]) == len(mask[0]) and (types is None or len(types[0]) == len(ids[0]))
        return [eval(self.text)]
"""


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[PreparedModel, RuntimeArtifact]:
    (tmp_path / "binding.py").write_text(BINDING)
    monkeypatch.setattr(module, "runner_binding", lambda: tmp_path / "binding.py")
    source = ModelSource(
        name="small",
        origin="test",
        directory=tmp_path,
        weights=None,
        onnx=None,
        tokenizer=tmp_path / "tokenizer.json",
        config={},
        pooling=Pooling(),
        max_length=16,
        dimension=3,
    )
    model = PreparedModel(
        file=tmp_path / "model.ort",
        format="ort",
        precision="fp32",
        recipe="none",
        needs=Operators(),
        source=source,
        inputs=("input_ids", "attention_mask"),
    )
    runtime = RuntimeArtifact(
        library=tmp_path / "libonnxruntime.so.1.21.0",
        version="1.21.0",
        kind="minimal",
        provides=Operators(),
        toolchain="none",
    )
    return model, runtime


def test_a_model_that_runs(shipped: tuple[PreparedModel, RuntimeArtifact], context: HostContext) -> None:
    model, runtime = shipped
    model.file.write_text("[0.6, 0.0, 0.8]")
    prove(model, runtime, context=context)


def test_a_missing_kernel_is_named(
    shipped: tuple[PreparedModel, RuntimeArtifact], context: HostContext
) -> None:
    model, runtime = shipped
    model.file.write_text("lacks")
    with pytest.raises(ProofError, match=r"model\.ort does not run.*com\.microsoft\.QAttention"):
        prove(model, runtime, context=context)


@pytest.mark.parametrize(
    ("vector", "said"),
    [
        ("[1.0]", "1 dimensions, not 3"),
        ("[0.0, 0.0, 0.0]", "zero"),
        ("[float('nan'), 0.1, 0.1]", "not finite"),
    ],
)
def test_vectors_that_cannot_be_right(
    vector: str, said: str, shipped: tuple[PreparedModel, RuntimeArtifact], context: HostContext
) -> None:
    model, runtime = shipped
    model.file.write_text(vector)
    with pytest.raises(ProofError, match=said):
        prove(model, runtime, context=context)


def test_the_real_binding_and_a_library_that_is_none(
    shipped: tuple[PreparedModel, RuntimeArtifact], context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    model, runtime = shipped
    model.file.write_bytes(b"x")
    runtime.library.write_bytes(b"no library")
    with pytest.raises(ProofError, match="does not run on libonnxruntime"):
        prove(model, runtime, context=context)
