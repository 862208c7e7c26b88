"""Findings in words: what the subject does, what the model does, what to change."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

import numpy as np

from edgepack.doctor.fit import Numbers
from edgepack.doctor.halves import Vectors
from edgepack.doctor.hypothesis import MODEL, Hypothesis, Padding
from edgepack.doctor.misreadings import MISREADINGS, OWN
from edgepack.doctor.search import Search
from edgepack.doctor.verdict import Finding
from edgepack.records.model import ModelSource

SPECIALS = {
    "all": "the model's special tokens",
    "none": "no special tokens",
    "not the first": "no special token at the beginning",
    "not the last": "no special token at the end",
    "twice": "special tokens twice",
}

KINDS: Mapping[str, tuple[str, str, str]] = {
    "pooling": ("pooling", "pooling is {own}", "Set the server's pooling to {own} (--pooling {own})."),
    "head": ("head", "a Dense layer after pooling", "Serve all modules of modules.json: export the model with its Dense layer."),
    "specials": ("tokenizer", SPECIALS["all"], "Let the tokenizer add its special tokens, once (add_special_tokens = true)."),
    "reading": ("tokenizer", f"texts are read {OWN}", "{advice}."),
    "vocabulary": ("tokenizer", f"texts are read {OWN}", "Serve the tokenizer.json (or vocabulary) that comes with the model."),
    "prefix": ("prefix", "{expected}", "{advice}"),
    "length": ("truncation", "texts are cut to {length} tokens", "Set the server's longest sequence to {length} tokens, or, if it is intended, pass --max-length {kept}."),
    "long": ("truncation", "texts are cut after as many tokens as the model takes", "Check how the server handles long texts: chunks, windows, truncation at the beginning."),
    "padding": ("padding", "padding makes no difference", "Give the attention mask to the model, and multiply by it before the mean."),
    "batch": ("batch", "a text's vector is its own", "Send texts one by one, or switch off dynamic quantization or batching in the server."),
    "random": ("random", "always the same vector", "Put the model into evaluation mode (model.eval()): dropout is on."),
    "order": ("order", "vectors in the order of their texts", "Put the vectors back into the texts' order after sorting them by length."),
    "quantized": ("quantized", "at least {limit:g}", "This is the usual loss by quantization; float16 would be closer."),
    "coarse": ("coarse", "at least {limit:g}", "Use a finer quantization (8 bits, per channel), or float16."),
    "turned": ("unclear", "the model's vectors", "The vectors work among themselves; never mix them with the model's own."),
    "unclear": ("unclear", "the model's vectors", "Check which model, revision and tokenizer the server has loaded."),
    "another-model": ("another-model", "the model's vectors", "Check which model the server has loaded."),
    "dimension": ("dimension", "{expected} numbers", "{advice}"),
    "centred": ("dimension", "vectors are cut {expected}", "Cut as the model's card says: the numbers are others."),
    "length-one": ("normalisation", "vectors are of length 1", "Normalize in the server (--normalize), or divide each vector by its length in the client."),
    "length-own": ("normalisation", "vectors are as long as they come from pooling", "Switch normalisation off, or compare by cosine alone."),
}  # fmt: skip
"""What can be found → the verdict, what is expected, what to change."""


def finding(kind: str, found: str, **values: object) -> Finding:
    """A finding of one of ``KINDS``; ``values`` are what its sentences leave open."""
    verdict, expected, advice = KINDS[kind]
    return Finding(
        verdict=verdict, found=found, expected=expected.format(**values), advice=advice.format(**values)
    )


def changes(search: Search, best: Hypothesis) -> Iterator[Finding]:
    """A finding for each respect in which a hypothesis differs from what is expected."""
    for name in differing(best, search.expected):
        without = replace(best, **{name: getattr(search.expected, name)})
        cosine = search.cosine(without) if search.usable(without) else None
        if name != "side":
            yield replace(_change(name, best, search), without=cosine)
        elif best.length == search.expected.length:
            yield replace(_change("length", best, search), without=cosine)


def differing(hypothesis: Hypothesis, expected: Hypothesis) -> list[str]:
    """In what two hypotheses differ, by their fields' names."""
    names = [each.name for each in fields(Hypothesis)]
    return [name for name in names if getattr(hypothesis, name) != getattr(expected, name)]


def _change(name: str, best: Hypothesis, search: Search) -> Finding:
    if name == "prefix":
        return _prefix(best.prefix, search.expected.prefix)
    if name == "length":
        return _truncated(best, search.expected, search.longest(best))
    if isinstance(best.padding, Padding) and name == "padding":
        return padded(best.padding.attended, f"{best.padding.to} tokens")
    if name == "head":
        return finding("head", "the layer after pooling (Dense) is left out")
    if name == "pooling":
        own = search.halves.mode
        return finding("pooling", f"pooling is {own if best.pooling == MODEL else best.pooling}", own=own)
    if name == "specials":
        return finding("specials", SPECIALS[best.specials])
    advice = MISREADINGS[best.reading].advice
    return finding("reading", f"texts are read {best.reading}", advice=advice[:1].upper() + advice[1:])


def _prefix(found: str, expected: str) -> Finding:
    said = f"{found!r} is put before every text" if found else "no prefix is put before texts"
    if found and found == expected * 2:
        said = f"the prefix {expected!r} is put there twice"
        advice = "Put the prefix there in the client or in the server, not in both."
    elif not found:
        advice = f"Put {expected!r} before every text."
    elif expected:
        advice = f"Put {expected!r} there in its place."
    else:
        advice = f"Switch the server's prefix off, or, if it is intended, pass --prefix {found!r}."
    meant = f"{expected!r} before every text" if expected else "texts as they are"
    return finding("prefix", said, expected=meant, advice=advice)


def _truncated(best: Hypothesis, expected: Hypothesis, longest: int) -> Finding:
    end = " at their beginning" if best.side == "beginning" else ""
    found = f"texts are cut{end} to {best.length} tokens"
    if best.length >= longest:
        found = f"texts are not cut: {longest} tokens were read, and none longer was asked or taken"
    return finding("length", found, length=expected.length, kept=best.length)


def padded(attended: bool, to: str) -> Finding:
    """Padding that is not told apart from text."""
    how = "attended to: there is no attention mask" if attended else "counted by the pooling"
    return finding("padding", f"padding to {to} is {how}")


def misplaced(places: Sequence[tuple[int, int]], count: int, *, many: bool = False) -> Finding:
    """Right vectors at wrong places; ``many``: in a large request only."""
    at, to = places[0]
    where = f" of a request of {count} texts" if many else ""
    return finding(
        "order",
        f"{len(places)} of {count} vectors{where} are other texts': that of text {at + 1} is text {to + 1}'s",
    )


def crowded(changed: int, count: int, least: float) -> Finding:
    """Other vectors in a large request only."""
    said = f"{changed} of {count} texts get other vectors in a request of {count} (cosine down to {least:.4f}), but not in small ones"
    return replace(
        finding("batch", said),
        advice=f"Send fewer than {count} texts per request, or check how the server splits large ones.",
    )


def odd(texts: Sequence[str], count: int, *, long: bool) -> Finding:
    """Some texts alone get other vectors."""
    if long:
        return finding(
            "long", f"{len(texts)} long texts get other vectors, in a way that doctor does not know"
        )
    some = ", ".join(repr(text[:40]) for text in texts[:3])
    said = f"{len(texts)} of {count} texts are read otherwise, in a way that doctor does not know: {some}"
    return finding("vocabulary", said)


def rounded(cosine: float, limit: float) -> Finding:
    """Small deviations without structure."""
    said = f"small deviations without structure, as of quantized weights: mean cosine {cosine:.4f}"
    return finding("quantized" if cosine >= limit else "coarse", said, limit=limit)


def unexplained(unrelated: bool, cosine: float, kept: float) -> Finding:
    """Nothing fits; ``kept`` is how the similarities between texts correlate with the model's."""
    if kept > 0.999:
        return finding("turned", "the similarities are the model's, the vectors are not: they are turned")
    if unrelated:
        said = f"the vectors have nothing to do with the model's (mean cosine {cosine:.4f})"
        return finding("another-model", said)
    return finding(
        "unclear", f"not this model, or a mistake that doctor does not know (mean cosine {cosine:.4f})"
    )


def cut_short(found: int, expected: int, again: bool, source: ModelSource) -> Finding:
    """The first numbers of each vector."""
    known = f", only for {', '.join(map(str, source.matryoshka))}" if source.matryoshka else ""
    advice = f"Ask for all {expected} numbers: the model was not trained to be cut to {found}{known}."
    if not again:
        advice = "Normalize the vectors again after the cut."
    elif found in source.matryoshka:
        advice = f"Ask for all {expected}, or, if it is intended, pass --dimensions {found}."
    said = f"vectors are cut to {found} numbers" + ("" if again else ", and not normalised again")
    return finding("dimension", said, expected=expected, advice=advice)


def cut_otherwise(centred: bool) -> Finding:
    """The first numbers, of vectors from which the model takes the mean before it cuts, or does not."""
    ways = ("as they are", "after a layer normalisation")
    return finding("centred", f"vectors are cut {ways[centred]}", expected=ways[not centred])


def wrong_length(lengths: Numbers, ratios: Numbers, vectors: Vectors, normalize: bool) -> Finding:
    """Right directions of other lengths; ``ratios`` are those to the lengths before normalisation."""
    low, high = float(lengths.min()), float(lengths.max())
    ratio = float(ratios.mean())
    said = f"vectors are of lengths from {low:.3g} to {high:.3g}"
    if high - low < 0.02 * high:
        said = f"vectors are all of length {low:.3g}"
    elif np.ptp(ratios) < 0.02 * ratio:
        said += " (not normalised)" if abs(ratio - 1) < 0.02 else f" (not normalised, times {ratio:.3g})"
    if (vectors == np.round(vectors)).all():
        said += ", of whole numbers: quantized to integers"
    return finding("length-one" if normalize else "length-own", said)


def differences(hypothesis: Hypothesis, expected: Hypothesis) -> str:
    """Differences between a hypothesis and what is expected, in a few words."""
    return ", ".join(f"{name} {getattr(hypothesis, name)!r}" for name in differing(hypothesis, expected))
