"""SetFit's heads: the probabilities of scikit-learn itself, and pickles that are refused."""

import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from tests.support.judges import save_modules
from tests.support.tiny import write_json
from tests.support.unpickling import read_in_this_process

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.models.find.source import ingest
from edgepack.models.heads.setfit import CONFIG, PICKLE, linear_layer
from edgepack.plugins.context import HostContext
from edgepack.records.model import Head
from edgepack.records.target import Reading
from edgepack.verifier.outputs.scores import activated, reference_scores

pytestmark = pytest.mark.tools("python")
WIDTH = 32
RANDOM = np.random.default_rng(3)
VECTORS = RANDOM.normal(size=(60, WIDTH)).astype(np.float32)
SEVERAL = np.argmax(VECTORS[:, :4], axis=1)
SETS = (VECTORS[:, :3] > 0.2).astype(int)
NAMES = np.array(["anger", "joy", "\u6b32\u671b", "none"])
HEADS: dict[str, Callable[[], Any]] = {
    "several names": lambda: LogisticRegression().fit(VECTORS, NAMES[SEVERAL]),
    "several numbers": lambda: LogisticRegression().fit(VECTORS, SEVERAL),
    "names as objects": lambda: LogisticRegression().fit(VECTORS, NAMES.astype(object)[SEVERAL]),
    "two": lambda: LogisticRegression(solver="liblinear").fit(VECTORS, SEVERAL > 1),
    "no intercept": lambda: LogisticRegression(fit_intercept=False).fit(VECTORS, SEVERAL),
    "one against the rest": lambda: OneVsRestClassifier(LogisticRegression()).fit(VECTORS, SEVERAL),
    "one against the other": lambda: OneVsRestClassifier(LogisticRegression()).fit(VECTORS, SEVERAL > 1),
    "sets": lambda: OneVsRestClassifier(LogisticRegression()).fit(VECTORS, SETS),
    "sets, several outputs": lambda: MultiOutputClassifier(LogisticRegression()).fit(VECTORS, SETS),
}
WRITERS: dict[str, Callable[[Any, Path], object]] = {
    "joblib": joblib.dump,
    "pickle": lambda head, path: path.write_bytes(pickle.dumps(head)),
    "old pickle": lambda head, path: path.write_bytes(pickle.dumps(head, protocol=2)),
}


def expected(head: Any, vectors: np.ndarray) -> np.ndarray:
    """[texts, labels]; of several outputs the probability of yes."""
    said = head.predict_proba(vectors)
    return np.stack([each[:, 1] for each in said], axis=1) if isinstance(said, list) else np.asarray(said)


def ours(path: Path, vectors: np.ndarray) -> np.ndarray:
    layer = linear_layer(path)
    labels = tuple(map(str, layer.classes))
    head = Head(task="classes", labels=labels, activation=layer.activation, file=path, tensor="")
    return activated(head, vectors.astype(np.float64) @ layer.weight.T + layer.bias)


@pytest.mark.sample(7)
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("kind", HEADS)
def test_probabilities_are_those_of_scikit_learn(kind: str, writer: str, tmp_path: Path) -> None:
    head = HEADS[kind]()
    WRITERS[writer](head, tmp_path / PICKLE)
    np.testing.assert_allclose(ours(tmp_path / PICKLE, VECTORS), expected(head, VECTORS), atol=1e-5)
    classes = getattr(head, "classes_", None)
    if isinstance(classes, np.ndarray):
        assert linear_layer(tmp_path / PICKLE).classes == tuple(classes.tolist())


class SetFitHead(torch.nn.Module):  # type: ignore[misc]  # of which mypy is told nothing
    """What setfit 1.2 saves: the package itself is not installed."""

    def __init__(
        self, *, outputs: int = 3, several: bool = False, bias: bool = True, dtype: Any = torch.float32
    ) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.linear = torch.nn.Linear(WIDTH, outputs, bias=bias, dtype=dtype)
        self.in_features, self.out_features, self.bias = WIDTH, outputs, bias
        self.temperature, self.eps, self.multitarget = 0.7, 1e-5, several
        self._device = torch.device("cpu")

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        logits = self.linear(vectors) / (self.temperature + self.eps)
        found: torch.Tensor = logits.sigmoid() if self.multitarget else logits.softmax(dim=-1)
        return found


@pytest.fixture(autouse=True)
def _setfit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its head, in the module that pickles name."""
    module = ModuleType("setfit.modeling")
    monkeypatch.setattr(SetFitHead, "__module__", module.__name__)
    vars(module)["SetFitHead"] = SetFitHead
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, "setfit", ModuleType("setfit"))


@pytest.mark.parametrize(
    "settings", [{}, {"several": True}, {"bias": False}, {"dtype": torch.float64}], ids=str
)
def test_probabilities_are_those_of_setfit_s_own_head(settings: dict[str, Any], tmp_path: Path) -> None:
    head = SetFitHead(**settings)
    joblib.dump(head, tmp_path / PICKLE)
    with torch.no_grad():
        exact = head(torch.tensor(VECTORS, dtype=settings.get("dtype", torch.float32))).numpy()
    np.testing.assert_allclose(ours(tmp_path / PICKLE, VECTORS), exact, atol=1e-6)


def test_a_tensor_s_bytes_may_name_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    head = SetFitHead()
    head.linear.weight.data = torch.zeros(3, WIDTH)
    joblib.dump(head, tmp_path / PICKLE)
    content = (tmp_path / PICKLE).read_bytes()
    spoiled = content.replace(b"ctorch\nFloatStorage\n", b"cposix\nmkdirXXXXXXX\n")
    assert spoiled != content
    (tmp_path / PICKLE).write_bytes(spoiled)
    with pytest.raises(ModelError, match="cannot be read"):
        linear_layer(tmp_path / PICKLE)


def test_the_settings_of_older_releases_count(tmp_path: Path) -> None:
    """``multi_class`` is gone: its two ways were sigmoids divided by their sum, and, of two labels, a softmax of -x and x."""
    several, two = HEADS["several numbers"](), HEADS["two"]()
    several.multi_class = "ovr"
    joblib.dump(several, tmp_path / PICKLE)
    apart = 1 / (1 + np.exp(-several.decision_function(VECTORS)))
    np.testing.assert_allclose(
        ours(tmp_path / PICKLE, VECTORS), apart / apart.sum(axis=1, keepdims=True), atol=1e-6
    )
    two.multi_class = "multinomial"
    joblib.dump(two, tmp_path / PICKLE)
    one = 1 / (1 + np.exp(-2 * two.decision_function(VECTORS)))
    np.testing.assert_allclose(ours(tmp_path / PICKLE, VECTORS)[:, 1], one, atol=1e-6)


def write_setfit(folder: Path, head: Any, **config: Any) -> Path:
    """As SetFit saves it: sentence-transformers' folder, the pickle and its own settings."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    save_modules(folder, Pooling(WIDTH, "mean"))
    joblib.dump(head, folder / PICKLE)
    if config:
        write_json(folder / CONFIG, config)
    return folder


TEXTS = ["hello world", "a small model", "a", "world models hello"]


@pytest.mark.parametrize("normalize", [False, True])
def test_a_folder_classifies_as_setfit_does(normalize: bool, tmp_path: Path, context: HostContext) -> None:
    from sentence_transformers import SentenceTransformer

    head = HEADS["several numbers"]()
    folder = write_setfit(tmp_path / "model", head, labels=NAMES.tolist(), normalize_embeddings=normalize)
    source = ingest(str(folder), context=context)
    assert source.head is not None
    assert (source.head.task, source.head.labels) == ("classes", tuple(NAMES))
    assert {PICKLE, CONFIG} <= {file.path for file in source.files}
    vectors = SentenceTransformer(str(folder), device="cpu").encode(TEXTS, normalize_embeddings=normalize)
    found = reference_scores(source, TEXTS, context=context)
    np.testing.assert_allclose(found, head.predict_proba(vectors), atol=1e-5)


def test_without_names_labels_are_those_that_it_was_trained_on(tmp_path: Path, context: HostContext) -> None:
    source = ingest(str(write_setfit(tmp_path / "model", HEADS["several names"]())), context=context)
    assert source.head is not None and source.head.labels == tuple(sorted(NAMES))


def test_the_encoder_alone_is_an_embedding_model(tmp_path: Path, context: HostContext) -> None:
    folder = write_setfit(tmp_path / "model", HEADS["two"]())
    source = ingest(str(folder), reading=Reading(treat_as_embedding=True), context=context)
    assert source.head is None and PICKLE not in {file.path for file in source.files}


class Code:
    def __reduce__(self) -> Any:
        return os.mkdir, ("was-run",)


class Covered:
    """A classifier's state with code in it."""

    def __reduce__(self) -> Any:
        return LogisticRegression, (), {"coef_": Code()}


def chain() -> Any:
    return ClassifierChain(LogisticRegression()).fit(VECTORS, SETS)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (Code, "names posix.mkdir, which is no linear classifier; nothing of it was run"),
        (Covered, "names posix.mkdir, which is no linear classifier"),
        (chain, "names sklearn.multioutput.ClassifierChain, which is no linear classifier"),
        (
            lambda: torch.nn.Sequential(torch.nn.Linear(WIDTH, 2)),
            "names torch.nn.modules.container.Sequential",
        ),
    ],
)
@pytest.mark.parametrize("writer", WRITERS)
def test_other_pickles_are_refused_and_not_run(
    made: Callable[[], Any], said: str, writer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    WRITERS[writer](made(), tmp_path / PICKLE)
    with pytest.raises(UnsupportedModelError, match="is no linear classifier") as caught:
        linear_layer(tmp_path / PICKLE)
    assert said in caught.value.message and "LogisticRegression" in (caught.value.hint or "")
    assert not (tmp_path / "was-run").exists()


def unfinite() -> Any:
    head = HEADS["two"]()
    head.coef_[0, 0] = np.nan
    return head


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (LogisticRegression, "holds no trained LogisticRegression: no coef_"),
        (lambda: {"coef_": 1}, "holds no classifier"),
        (lambda: torch.nn.Linear(WIDTH, 2), "holds no trained Linear"),
        (lambda: SetFitHead(dtype=torch.bfloat16), "cannot be read: ValueError"),
        (lambda: SetFitHead(outputs=1), "another shape"),
        (unfinite, "numbers that are not finite"),
    ],
)
def test_what_is_no_trained_classifier_is_said(made: Callable[[], Any], said: str, tmp_path: Path) -> None:
    joblib.dump(made(), tmp_path / PICKLE)
    with pytest.raises(ModelError) as caught:
        linear_layer(tmp_path / PICKLE)
    assert said in caught.value.message and caught.value.hint


@pytest.mark.parametrize("made", [HEADS["several names"], SetFitHead])
def test_every_cut_pickle_is_damaged(made: Callable[[], Any], tmp_path: Path) -> None:
    joblib.dump(made(), tmp_path / PICKLE)
    whole = (tmp_path / PICKLE).read_bytes()
    for end in range(0, len(whole) - 1, 97):
        (tmp_path / PICKLE).write_bytes(whole[:end])
        with pytest.raises(EdgepackError), read_in_this_process():
            linear_layer(tmp_path / PICKLE)


@pytest.mark.parametrize("made", [HEADS["several names"], SetFitHead])
def test_altered_bytes_raise_nothing_else(made: Callable[[], Any], tmp_path: Path) -> None:
    joblib.dump(made(), tmp_path / PICKLE)
    whole = (tmp_path / PICKLE).read_bytes()
    for at in range(0, len(whole), 5):
        changed = bytearray(whole)
        changed[at] ^= 1 << at % 8
        (tmp_path / PICKLE).write_bytes(changed)
        try:
            with read_in_this_process():
                linear_layer(tmp_path / PICKLE)
        except EdgepackError as error:
            assert error.hint


def test_a_head_of_another_encoder_is_refused(tmp_path: Path, context: HostContext) -> None:
    head = LogisticRegression().fit(VECTORS[:, :9], SEVERAL)
    with pytest.raises(ModelError, match=f"takes vectors of 9 numbers, the encoder's have {WIDTH}"):
        ingest(str(write_setfit(tmp_path / "model", head)), context=context)


def test_two_labels_of_one_name_are_refused(tmp_path: Path, context: HostContext) -> None:
    folder = write_setfit(tmp_path / "model", HEADS["two"](), labels=["yes", "yes"])
    (folder / PICKLE).unlink()
    joblib.dump(LogisticRegression().fit(VECTORS, (SEVERAL > 1).astype(int)), folder / PICKLE)
    with pytest.raises(UnsupportedModelError, match="two of them have one name") as caught:
        ingest(str(folder), context=context)
    assert CONFIG in (caught.value.hint or "")
