"""The full-precision model is judged with the user's own module around it, which runs in a process of the host's with limits."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgepack.errors import VerificationError
from edgepack.models.find.source import ingest
from edgepack.models.reference import cached_reference, reference_vectors
from edgepack.plugins.context import HostContext
from edgepack.records.model import ModelSource
from edgepack.testing.model import write_model
from edgepack.verifier.confined import module_process
from edgepack.verifier.confined.limits import RunLimits
from edgepack.verifier.confined.module_process import text_module

pytestmark = pytest.mark.tools("python")

HOOKS = """\
import sys

sys.edgepack_was_here = True


def prepare(texts):
    return [text.replace("dog", "cat") for text in texts]


def finish(vectors, texts):
    return [[-number if "cat" in text else number for number in vector] for vector, text in zip(vectors, texts)]
"""


@pytest.fixture
def tiny_source(tmp_path: Path, context: HostContext) -> ModelSource:
    return ingest(str(write_model(tmp_path / "model")), context=context)


@pytest.fixture
def hooks(tmp_path: Path) -> Path:
    (tmp_path / "hooks.py").write_text(HOOKS)
    return tmp_path / "hooks.py"


def test_it_is_never_imported_into_edgepacks_process(hooks: Path, context: HostContext) -> None:
    made = text_module(hooks, context=context)
    assert made.prepare(["a dog"]) == ["a cat"]
    assert made.finish([[1.0, 2.0], [3.0, 4.0]], ["a cat", "mat"]) == [[-1.0, -2.0], [3.0, 4.0]]
    assert "hooks" not in sys.modules and not hasattr(sys, "edgepack_was_here")


def test_reference_vectors_are_made_with_it(
    hooks: Path, tiny_source: ModelSource, context: HostContext
) -> None:
    around = replace(tiny_source, module=text_module(hooks, context=context))
    plain = reference_vectors(tiny_source, ["a cat", "mat"], context=context)
    made = reference_vectors(around, ["a dog", "mat"], context=context)
    assert np.array_equal(made, plain * [[-1], [1]])
    # And are kept apart.
    for source, expected in (
        (around, made),
        (tiny_source, reference_vectors(tiny_source, ["a dog", "mat"], context=context)),
    ):
        assert np.array_equal(cached_reference(source, ["a dog", "mat"], context=context), expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import os; os._exit(3)", "ended the process that runs it: exit code 3"),
        ("import edgepack", "No module named 'edgepack'"),
        ("open('/etc/hostname_of_mine')", "FileNotFoundError"),
        ("x = bytearray(1 << 33)", "MemoryError"),
        ("def f(", "SyntaxError"),
        ("", "has neither a function prepare(texts) nor finish(vectors, texts)"),
        ("while True: pass", "did not end within 1 s"),
    ],
)
def test_what_it_does_badly_is_said(
    hooks: Path, text: str, words: str, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = RunLimits(seconds=1 if "while" in text else 60, address_space=2 << 30)
    monkeypatch.setattr(module_process, "LIMITS", limits)
    hooks.write_text(text)
    with pytest.raises(VerificationError) as caught:
        text_module(hooks, context=context)
    assert caught.value.message.startswith("hooks.py ") and words in caught.value.message
    assert caught.value.hint
