"""Whether an index that the old bundle has made serves the new one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from edgepack.api.kit import Word
from edgepack.records.report import Scores
from edgepack_updates.compare import Drift, further_outputs

AGREE = 0.9999
"""Lowest cosine of vectors that are the same to 1e-4, as for ``model.embedder``."""
KEPT = 0.9
"""Share of the ten nearest below which one answer in ten of a mixed index is another one."""
LENGTH, LENGTH_WITH_LOSS = 0.01, 0.1
"""By how much of it a vector's length may change: where its direction stays, and where it changes, too. int8 has 0.02 on
all-MiniLM-L6-v2, int8-fast 0.03."""
SAME_SCORES = 1e-4
"""Largest difference of scores that are the same."""
TAU, BEST = 0.98, 0.99
"""Kendall's tau of the scores, and share of the best texts or labels, from which on a new bundle ranks as the old one."""
CLAIMED = "not decided: its maker says that vectors are the same to 1e-4, by embedder id and golden vectors; its program was not run"
ALIKE = "not decided: the built-in texts have {} that are the same to 1e-4, but {} were not compared"
PRUNED = "one bundle has fewer tokens, and texts with others"
CUT = "one bundle cuts texts at {} tokens, and longer ones"
SPLIT = "the tokenizers are of other files, and texts that they split otherwise"
MODULE = "the modules are other files, and texts that they change otherwise"
OTHER_WORDS = "weights, recipe or settings of the model are others, and other words"
TOLD = "what they are made of is a maker's word, and other words"
EXPLAIN = {"runtime", "processor", "before queries", "further outputs"}
"""Settings for which embedder ids differ, while texts' vectors differ as those of the built-in ones, or not at all."""
SAME_BITS = "the same bits: one index serves both"
_NOUNS = {None: "embeddings", "rank": "ranking", "classes": "classifying"}
Outcome = Literal["same", "mixed", "rebuild", "undecided"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One sentence, and what decided it."""

    outcome: Outcome
    says: str
    why: tuple[str, ...] = ()


def reasons(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    """Why vectors of two manifests cannot be in one index, whatever they are."""
    one, other = old["model"], new["model"]
    found = []
    if one.get("task") != other.get("task"):
        return (
            f"the new bundle is for another task ({_NOUNS[other.get('task')]}, not {_NOUNS[one.get('task')]})",
        )
    if one.get("labels") != other.get("labels"):
        return ("the labels are others",)
    if one.get("task"):
        return ()
    if one["dimension"] != other["dimension"]:
        found.append(f"vectors have {other['dimension']} dimensions, not {one['dimension']}")
    if one["normalize"] != other["normalize"]:
        found.append(
            "vectors are "
            + ("scaled to length 1 now" if other["normalize"] else "no longer scaled to length 1")
        )
    # Who has vectors alone in an index may go on to a model that gives more.
    if one.get("outputs") != other.get("outputs") and (
        one.get("outputs") or not other["outputs"].get("dense")
    ):
        found.append(
            "what it gives beside, or in the place of, a vector is read otherwise now (model.outputs)"
        )
    before, after = (each.get("prefixes", {}).get("passage", "") for each in (one, other))
    if before != after:
        found.append(f"before passages goes {after!r} now, not {before!r}")
    return tuple(found)


def judge(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    drift: Drift | None,
    differs: Mapping[str, Any],
    *,
    said_by: Sequence[Word],
) -> Verdict:
    """``drift`` is what was measured, ``None`` for other dimensions; ``differs`` has the settings that changed, by name.

    ``said_by``: whose word the two bundles are, which decides where their programs were not run.
    """
    why = reasons(old, new)
    scored = old["model"].get("task") or new["model"].get("task")
    if why or drift is None:
        begins = "not to be exchanged" if scored else "rebuild the index"
        return Verdict(outcome="rebuild", says=f"{begins}: {'; '.join(why)}", why=why)
    if drift.scores is not None:
        return _of_scores(drift.scores, differs, _missed(old, new, differs, said_by))
    # A cosine does not see it, and an index by inner products does.
    lengths = f"rebuild the index: lengths of vectors change by up to {drift.length_change:.1%}"
    if drift.min_cosine >= AGREE and not drift.length_change <= LENGTH:
        return Verdict(outcome="rebuild", says=lengths, why=_causes(differs))
    if drift.by == "golden":
        return _unmeasured(old, new, drift, said_by)
    missed = _missed(old, new, differs, said_by)
    # Ids and digests are their makers' words.
    if _same_bits(old, new) and drift.same_bits and not missed:
        return Verdict(outcome="same", says=SAME_BITS)
    if drift.min_cosine >= AGREE and missed:
        says = ALIKE.format("vectors", missed)
        return Verdict(outcome="undecided", says=says, why=_causes(differs))
    if drift.min_cosine >= AGREE:
        return Verdict(outcome="same", says="the same to 1e-4: an index can stay")
    assert drift.top10_kept is not None and drift.nearest_kept is not None
    cosines = f"cosine {drift.mean_cosine:.4f}, lowest {drift.min_cosine:.4f}"
    found = f"a new query finds {drift.top10_kept:.1%} of its ten nearest texts in it ({cosines})"
    causes = _causes(differs)
    if drift.top10_kept >= KEPT and not drift.length_change <= LENGTH_WITH_LOSS:
        return Verdict(outcome="rebuild", says=f"{lengths}; {found}", why=causes)
    if drift.top10_kept >= KEPT and (outputs := _outputs(old, new, said_by)):
        return Verdict(
            outcome="undecided", says=f"not decided: {outputs} were not compared; {found}", why=causes
        )
    if drift.top10_kept >= KEPT:
        if missed:
            found += f"; {missed} were not compared"
        return Verdict(outcome="mixed", says=f"the index can stay, with a loss: {found}", why=causes)
    of = f" ({', '.join(causes)})" if causes else ""
    return Verdict(outcome="rebuild", says=f"rebuild the index: {found}{of}", why=causes)


def _same_bits(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """By what was written down when they were made: one embedder, and one digest of the golden texts' vectors."""
    one, other = ({each["model"].get(key) for each in (old, new)} for key in ("embedder", "vectors_sha256"))
    return len(one) == len(other) == 1 and not (one | other) & {None, ""}


def _missed(
    old: Mapping[str, Any], new: Mapping[str, Any], differs: Mapping[str, Any], said_by: Sequence[Word]
) -> str:
    """Words for other outputs, and for texts that the two read otherwise and that the built-in ones do not stand for; empty where there are none."""
    if _other_tokens(old, new):
        return PRUNED
    longest = [each["model"].get("max_length") for each in (old, new)]
    if longest[0] != longest[1]:
        return CUT.format(min(filter(None, longest)))
    # A tokenizer or weights may have been saved again, float32 as float16.
    if _one_embedder(old, new, said_by):
        return ""
    if "tokenizer" in differs:
        return SPLIT
    if "module" in differs:
        return MODULE
    if outputs := _outputs(old, new, said_by):
        return outputs
    if differs.keys() & {"weights", "recipe"} or ("embedder" in differs and not differs.keys() & EXPLAIN):
        return OTHER_WORDS
    return "" if all(word.counts for word in said_by) else TOLD


def _outputs(old: Mapping[str, Any], new: Mapping[str, Any], said_by: Sequence[Word]) -> str:
    """Outputs that an index may be of and that were not compared; those of one embedder, by a word that counts, are the same."""
    return "" if _one_embedder(old, new, said_by) else " and ".join(further_outputs(old))


def _one_embedder(old: Mapping[str, Any], new: Mapping[str, Any], said_by: Sequence[Word]) -> bool:
    """Whether the two are one embedder, by words that count: then all is the same that an id is made of."""
    embedders = {each["model"].get("embedder") or None for each in (old, new)}
    return len(embedders) == 1 and None not in embedders and all(word.counts for word in said_by)


def _other_tokens(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether a pass took tokens from one of them that the other has: a pruned vocabulary keeps those of everyday texts."""
    pruned = any("prune-vocabulary" in str(each["model"].get("recipe", "")) for each in (old, new))
    return pruned and _tokenizer(old) != _tokenizer(new)


def _tokenizer(manifest: Mapping[str, Any]) -> list[str]:
    named = manifest["model"].get("tokenizer")
    return [str(file["sha256"]) for file in manifest["files"] if file["path"] == named]


def _causes(differs: Mapping[str, Any]) -> tuple[str, ...]:
    names = ("model", "weights", "tokenizer", "recipe", "runtime", "processor")
    return tuple(f"another {name}" for name in names if name in differs)


def _of_scores(found: Scores, differs: Mapping[str, Any], missed: str) -> Verdict:
    """A reranker or a classifier has no index; thresholds on its scores may be kept."""
    if found.largest <= SAME_SCORES and missed:
        return Verdict(outcome="undecided", says=ALIKE.format("scores", missed), why=_causes(differs))
    if found.largest <= SAME_SCORES:
        return Verdict(outcome="same", says="the same scores to 1e-4: thresholds can stay")
    causes = _causes(differs)
    figures = (
        f"scores' tau {found.tau:.4f}, best kept {found.kept:.1%}, largest difference {found.largest:.4f}"
    )
    if found.tau >= TAU and found.kept >= BEST:
        return Verdict(
            outcome="mixed", says=f"{figures}: nearly the same order; check thresholds", why=causes
        )
    of = f" ({', '.join(causes)})" if causes else ""
    return Verdict(outcome="rebuild", says=f"another order: {figures}{of}", why=causes)


def _unmeasured(
    old: Mapping[str, Any], new: Mapping[str, Any], drift: Drift, said_by: Sequence[Word]
) -> Verdict:
    """By ids and golden vectors, which decide nothing where they are anybody's word."""
    stays = "thresholds" if new["model"].get("task") else "an index"
    embedders = {str(each["model"].get("embedder", "")) for each in (old, new)}
    if len(embedders) == 1 and embedders != {""} and drift.min_cosine >= AGREE:
        if not all(word.counts for word in said_by):
            return Verdict(outcome="undecided", says=CLAIMED, why=(drift.reason,))
        if _same_bits(old, new):
            return Verdict(outcome="same", says=SAME_BITS)
        return Verdict(
            outcome="same",
            says=f"the same to 1e-4 by their embedder ids and golden vectors: {stays} can stay",
        )
    return Verdict(
        outcome="undecided",
        says=f"not decided: cosine {drift.mean_cosine:.4f} (lowest {drift.min_cosine:.4f}) on the {drift.texts} golden texts alone",
        why=(drift.reason,),
    )
