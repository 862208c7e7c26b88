"""The full-precision model is judged with the user's own module around it, which runs in a process of the host's with limits."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgepack.errors import VerificationError
from edgepack.models.find.source import ingest
from edgepack.models.reference import cached_reference, reference_vectors
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource
from edgepack.testing.model import write_model
from edgepack.verifier.confined import module_process
from edgepack.verifier.confined.limits import RunLimits
from edgepack.verifier.confined.module_process import module_of, text_module
from edgepack.verifier.confined.program import Ended

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
        ("import os; os.write(1, b'x')", "answered in the place of what runs it"),
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


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("[" * 9999, "RecursionError"),
        ("", "0 lines for 1"),
        ("7", "TypeError"),
        ('{"error": 1, "hint": ""}', "what is wrong is no text"),
        ('{"error": "x"}', "hint"),
        *(
            (f'{{"made": {made}}}', "not what finish gives")
            for made in (
                "[[1.0]]",
                "[[1.0, NaN]]",
                "[[1.0, 1e999]]",
                "[[1, true]]",
                "[]",
                "{}",
                '["ab"]',
                "null",
            )
        ),
    ],
)
def test_an_answer_that_it_has_written_itself_is_looked_at(
    hooks: Path, said: str, words: str, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = text_module(hooks, context=context)
    ended = Ended(output=said, messages="", code=0)
    monkeypatch.setattr(module_process, "confine", lambda *words, **options: ended)
    with pytest.raises(VerificationError, match="answered in the place of what runs it") as caught:
        made.finish([[1.0, 2.0]], ["a"])
    assert words in caught.value.message


def test_a_strangers_module_does_not_judge_itself(tmp_path: Path, hooks: Path, context: HostContext) -> None:
    """It could give the same vectors for every model; only where the user has named it does it count."""
    folder = tmp_path / "bundle"
    folder.mkdir()
    shutil.copy(hooks, folder / "hooks.py")
    bundle = Bundle(directory=folder, manifest={"name": "tiny", "runner": {"module": "hooks.py"}})
    assert module_of(bundle, ours=False, context=context) is None
    for ours, named in ((True, None), (False, hooks)):
        made = module_of(bundle, ours=ours, named=named, context=context)
        assert made is not None and made.name == "hooks.py"
    hooks.write_text(HOOKS + "\n")
    plain = Bundle(directory=folder, manifest={"name": "tiny", "runner": {}})
    for of, named in ((bundle, hooks), (bundle, tmp_path / "none.py"), (plain, folder / "hooks.py")):
        with pytest.raises(VerificationError, match="is not the module of tiny"):
            module_of(of, ours=False, named=named, context=context)
    assert module_of(plain, ours=True, context=context) is None
