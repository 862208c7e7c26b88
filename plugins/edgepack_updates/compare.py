"""What changes between two bundles: settings, bytes by part, and vectors of the built-in texts through both programs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepack.api import BuildContext, Bundle, BundleError
from edgepack.bundles.golden import read_golden
from edgepack.errors import CannotRunHere
from edgepack.records.report import Scores
from edgepack.verifier.gate import verification_texts
from edgepack.verifier.metrics import lowest_cosine, rank, shared, unit
from edgepack.verifier.outputs.order import ranking_pairs
from edgepack.verifier.outputs.scores import score_figures
from edgepack.verifier.tasks.wordnet import retrieval_task
from edgepack.verifier.texts.drawn import new_text
from edgepack.verifier.trusted_bundles import may_run, runner_for

Vectors = NDArray[np.float32]
TOP = 10
OUTPUTS = {"sparse": "sparse weights", "multi_vector": "vectors of tokens"}
GLOSSES, WORDS = 2000, 500
"""Of the retrieval task, as the full gate has it."""


@dataclass(frozen=True, kw_only=True)
class BundleChange:
    """A setting that is another one in the new bundle."""

    what: str
    old: str
    new: str


@dataclass(frozen=True, kw_only=True)
class Retrieval:
    """Words that look for their glosses: share whose gloss is among the ten nearest."""

    queries: int
    glosses: int
    recall_old: float
    recall_new: float
    recall_mixed: float
    """Words by the new bundle, glosses by the old one."""
    top10_kept: float
    """Share of the new bundle's ten nearest that a mixed index finds."""


@dataclass(frozen=True, kw_only=True)
class Drift:
    """The vectors of the same texts by both bundles; of rerankers and classifiers those that the last layer takes."""

    by: str
    """``programs``: both were run; ``golden``: what their makers wrote down of the golden texts."""
    texts: int
    mean_cosine: float
    min_cosine: float
    largest_difference: float
    """Of two numbers of vectors of length 1."""
    length_change: float = 0.0
    """The most by which a vector's own length changed, as a share of it."""
    same_bits: bool = False
    """Whether each number of each vector is the same, as it was given."""
    nearest_kept: float | None = None
    """Share of the texts whose nearest other text in an index by the old bundle is the one in an index by the new bundle, when the
    text is embedded by the new bundle; ``None``: not measured."""
    top10_kept: float | None = None
    """Likewise of the ten nearest."""
    retrieval: Retrieval | None = None
    scores: Scores | None = None
    """Of rerankers and classifiers: the new bundle's scores beside the old one's."""
    reason: str = ""
    """Why the programs were not run."""


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[BundleChange, ...]:
    """Differences of two manifests that a user sees, in the manifests' order."""
    rows = [(what, _said(read(old)), _said(read(new))) for what, read in _READ.items()]
    return tuple(BundleChange(what=what, old=one, new=other) for what, one, other in rows if one != other)


_TOKENIZERS = ("tokenizer.json", "vocab.txt", "merges.txt", "sentencepiece.bpe.model", "spiece.model")


def _sources(manifest: Mapping[str, Any], *, tokenizer: bool) -> str:
    """The digests of a model's tokenizer files, or of those that hold weights."""
    chosen = {
        file["path"]: file["sha256"]
        for file in manifest["model"].get("source_files", ())
        if (file["path"].rpartition("/")[2] in _TOKENIZERS) == tokenizer
        and (tokenizer or not file["path"].endswith((".json", ".md", ".txt")))
    }
    return ", ".join(f"{path} {sha256[:12]}…" for path, sha256 in sorted(chosen.items()))


def further_outputs(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Words for each output beside, or in the place of, one vector a text."""
    said = manifest["model"].get("outputs") or {}
    return tuple(words for key, words in OUTPUTS.items() if said.get(key))


def _runtime(manifest: Mapping[str, Any]) -> str:
    found = manifest["runtime"]
    if not found:
        return "none"
    return f"{found.get('name', 'ONNX Runtime')} {found['version']} ({found['kind']})"


def _module(manifest: Mapping[str, Any]) -> str:
    """The digest of the user's module around the model."""
    named = manifest["runner"].get("module")
    return ", ".join(
        f"{file['sha256'][:12]}…" for file in manifest["files"] if named and file["path"] == named
    )


_READ: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
    "bundle": lambda manifest: manifest["name"],
    "edgepack": lambda manifest: manifest["edgepack"],
    "target": lambda manifest: manifest["target"]["name"],
    "processor": lambda manifest: manifest["target"].get("platform", {}).get("arch"),
    "model": lambda manifest: manifest["model"]["name"],
    "weights": lambda manifest: _sources(manifest, tokenizer=False),
    "tokenizer": lambda manifest: _sources(manifest, tokenizer=True),
    "recipe": lambda manifest: manifest["model"].get("recipe"),
    "dimensions": lambda manifest: manifest["model"]["dimension"],
    "tokens of a text": lambda manifest: manifest["model"].get("max_length"),
    "pooling": lambda manifest: manifest["model"].get("vectors") or manifest["model"].get("pooling"),
    "vectors of length 1": lambda manifest: manifest["model"]["normalize"],
    "task": lambda manifest: manifest["model"].get("task", "embed"),
    "labels": lambda manifest: ", ".join(manifest["model"].get("labels", ())),
    "scores by": lambda manifest: manifest["model"].get("activation", ""),
    "before queries": lambda manifest: manifest["model"].get("prefixes", {}).get("query", ""),
    "before passages": lambda manifest: manifest["model"].get("prefixes", {}).get("passage", ""),
    "further outputs": lambda manifest: ", ".join(further_outputs(manifest)),
    "module": _module,
    "runtime": _runtime,
    "program": lambda manifest: manifest["runner"].get("kind"),
    "embedder": lambda manifest: manifest["model"].get("embedder", "")[:12],
}


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "nothing" if value is None else str(value) or "nothing"


def measure_drift(old: Bundle, new: Bundle, *, run: bool, full: bool, context: BuildContext) -> Drift:
    """Embed the built-in texts by both, or compare their golden vectors where one of them may not or cannot be run."""
    fresh = _fresh_texts(old, new, context)
    texts = [*verification_texts(), *fresh, *_golden(new)]
    try:
        before, after = (_embed(bundle, texts, run, context) for bundle in (old, new))
    except CannotRunHere as cannot:
        return _of_golden(old, new, cannot.reason)
    if old.manifest["model"].get("task"):
        return Drift(
            by="programs",
            **_nearness(before, after),
            scores=_scores(old, new, fresh or verification_texts(), context),
        )
    asked = len(verification_texts()) + len(fresh)
    mixed, kept = _others(after[:asked], before[:asked]), _others(after[:asked], after[:asked])
    return Drift(
        by="programs",
        **_nearness(before, after),
        nearest_kept=float((mixed[:, 0] == kept[:, 0]).mean()),
        top10_kept=shared(mixed, kept),
        retrieval=_retrieval(old, new, run, context) if full else None,
    )


def _embed(bundle: Bundle, texts: Sequence[str], run: bool, context: BuildContext) -> Vectors:
    if not may_run(bundle, asked=run, context=context):
        raise CannotRunHere(
            f"{bundle.name} was not made on this machine; --run runs its program in a sandbox"
        )
    return np.asarray(runner_for(bundle, context).embed(bundle, texts), np.float32)


def _fresh_texts(old: Bundle, new: Bundle, context: BuildContext) -> tuple[str, ...]:
    """Texts that nobody knew before, as many as the published ones, where a program is a stranger's: it may know those by heart."""
    if all(may_run(each, asked=False, context=context) for each in (old, new)):
        return ()
    return tuple(new_text() for _ in verification_texts())


def _scores(old: Bundle, new: Bundle, texts: Sequence[str], context: BuildContext) -> Scores:
    """Scores of both programs, which may run; the two models have the same task and labels."""
    task = old.manifest["model"]["task"]
    asked: Sequence[str | tuple[str, str]] = ranking_pairs(texts) if task == "rank" else texts
    before, after = (np.asarray(runner_for(each, context).scores(each, asked)) for each in (old, new))
    return score_figures(task, after, before)


def _nearness(before: Vectors, after: Vectors) -> dict[str, Any]:
    one, other = unit(before), unit(after)
    was, became = (np.linalg.norm(each, axis=1) for each in (before, after))
    return {
        "texts": len(before),
        "mean_cosine": float(np.einsum("td,td->t", one, other).mean()),
        "min_cosine": lowest_cosine(before, after),
        "largest_difference": float(np.abs(one - other).max()),
        "length_change": float((np.abs(became - was) / np.maximum(was, np.finfo(np.float32).tiny)).max()),
        "same_bits": before.tobytes() == after.tobytes(),
    }


def _others(queries: Vectors, documents: Vectors) -> NDArray[np.intp]:
    """For each query the ten nearest documents but its own text's; int [texts, 10]."""
    scores = unit(queries) @ unit(documents).T
    np.fill_diagonal(scores, -np.inf)
    return np.asarray(np.argsort(-scores, axis=1, kind="stable")[:, :TOP])


def _of_golden(old: Bundle, new: Bundle, reason: str) -> Drift:
    one, other = _golden(old), _golden(new)
    both = [text for text in one if text in other]
    if not both:
        raise BundleError(
            "the two bundles have no golden text in common", hint="--run compares their programs"
        )
    before, after = (np.asarray([each[text] for text in both]) for each in (one, other))
    return Drift(by="golden", **_nearness(before, after), reason=reason)


def _golden(bundle: Bundle) -> Mapping[str, Vectors]:
    """Texts and their vectors, as the bundle's maker wrote them down. Raises ``BundleError``."""
    texts, rows = read_golden(bundle)
    dimension = bundle.manifest["model"]["dimension"]
    if {len(row) for row in rows} != {dimension}:
        raise BundleError(
            f"the golden vectors of {bundle.name} are not of {dimension} numbers", hint="build it again"
        )
    return dict(zip(texts, np.asarray(rows, np.float32), strict=True))


def _retrieval(old: Bundle, new: Bundle, run: bool, context: BuildContext) -> Retrieval:
    task = retrieval_task(glosses=GLOSSES, words=WORDS, context=context)
    belongs = np.asarray(task.belongs)

    def vectors(bundle: Bundle) -> tuple[Vectors, Vectors]:
        prefixes = bundle.manifest["model"].get("prefixes", {})
        asked = [prefixes.get("query", "") + word for word in task.words]
        made = _embed(
            bundle, [*asked, *(prefixes.get("passage", "") + gloss for gloss in task.glosses)], run, context
        )
        return made[: len(asked)], made[len(asked) :]

    (old_words, old_glosses), (words, glosses) = vectors(old), vectors(new)
    fresh, mixed = rank(words, glosses, belongs), rank(words, old_glosses, belongs)
    return Retrieval(
        queries=len(task.words),
        glosses=len(task.glosses),
        recall_old=rank(old_words, old_glosses, belongs).recall,
        recall_new=fresh.recall,
        recall_mixed=mixed.recall,
        top10_kept=shared(mixed.nearest, fresh.nearest),
    )
