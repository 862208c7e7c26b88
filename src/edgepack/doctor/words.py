"""Findings in words: what the subject does, what the model does, what to change."""

from collections.abc import Iterator, Sequence
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


def changes(search: Search, best: Hypothesis) -> Iterator[Finding]:
    """A finding for each respect in which a hypothesis differs from what is expected."""
    expected = search.expected
    for name in (each.name for each in fields(Hypothesis)):
        if getattr(best, name) == getattr(expected, name) or name == "side":
            continue
        without = replace(best, **{name: getattr(expected, name)})
        if name == "length":
            without = replace(without, side=expected.side)
        cosine = search.cosine(without) if search.usable(without) else None
        yield replace(_change(name, best, expected, search), without=cosine)
    if best.side != expected.side and best.length == expected.length:
        yield replace(_change("length", best, expected, search), without=search.cosine(expected))


def _change(name: str, best: Hypothesis, expected: Hypothesis, search: Search) -> Finding:
    if name == "prefix":
        return _prefix(best.prefix, expected.prefix)
    if name == "length":
        return _truncated(best, expected, search.longest(best))
    if name == "padding":
        assert best.padding is not None
        return padded(best.padding.attended, best.padding.to, None)
    if name == "head":
        return Finding(
            verdict="head",
            found="the layer after pooling (Dense) is left out",
            expected="pooling, then a Dense layer",
            advice="serve all modules of modules.json: export the model with its Dense layer.",
        )
    if name == "pooling":
        own = search.halves.mode
        named = own if best.pooling == MODEL else best.pooling
        return Finding(
            verdict="pooling",
            found=f"pooling is {named}",
            expected=f"pooling is {own}",
            advice=f"Set the server's pooling to {own} (--pooling {own}).",
        )
    if name == "specials":
        return Finding(
            verdict="tokenizer",
            found=SPECIALS[best.specials],
            expected=SPECIALS[expected.specials],
            advice="Let the tokenizer add its special tokens, once (add_special_tokens = true).",
        )
    advice = MISREADINGS[best.reading].advice
    return Finding(
        verdict="tokenizer",
        found=f"texts are read {best.reading}",
        expected=f"texts are read {OWN}",
        advice=f"{advice[0].upper()}{advice[1:]}.",
    )


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
        advice = f"Switch the server's prefix off, or say that it is meant: --prefix {found!r}."
    return Finding(
        verdict="prefix",
        found=said,
        expected=f"{expected!r} before every text" if expected else "texts as they are",
        advice=advice,
    )


def _truncated(best: Hypothesis, expected: Hypothesis, longest: int) -> Finding:
    end = " at their beginning" if best.side == "beginning" else ""
    found = f"texts are cut{end} to {best.length} tokens"
    if best.length >= longest:
        found = f"texts are not cut: {longest} tokens were read, and none longer was asked or taken"
    return Finding(
        verdict="truncation",
        found=found,
        expected=f"texts are cut to {expected.length} tokens",
        advice=f"Set the server's longest sequence to {expected.length} tokens, or say that it is meant: "
        f"--max-length {best.length}.",
    )


def padded(attended: bool, to: int | None, least: float | None) -> Finding:
    """Padding to so many tokens, or to the longest text of a batch."""
    where = f"to {to} tokens" if to else "to the longest text of a batch"
    how = "attended to: there is no attention mask" if attended else "counted by the pooling"
    return Finding(
        verdict="padding",
        found=f"padding {where} is {how}",
        expected="padding makes no difference",
        advice="Give the attention mask to the model, and multiply by it before the mean.",
        without=least,
    )


def dependent(least: float) -> Finding:
    """A vector that depends on its neighbours, nobody knows why."""
    return Finding(
        verdict="batch",
        found=f"a text's vector depends on the texts beside it (cosine down to {least:.4f})",
        expected="a text's vector is its own",
        advice="Send texts one by one, or switch off dynamic quantization or batching in the server.",
        without=least,
    )


def unsteady() -> Finding:
    """Another vector each time."""
    return Finding(
        verdict="random",
        found="the same text gives another vector each time",
        expected="always the same vector",
        advice="Put the model into evaluation mode (model.eval()): dropout is on.",
    )


def misplaced(places: Sequence[tuple[int, int]], count: int) -> Finding:
    """Right vectors at wrong places."""
    at, to = places[0]
    return Finding(
        verdict="order",
        found=f"{len(places)} of {count} vectors are other texts': that of text {at + 1} is text {to + 1}'s",
        expected="vectors in the order of their texts",
        advice="Put the vectors back into the texts' order after sorting them by length.",
    )


def odd_texts(texts: Sequence[str], count: int) -> Finding:
    """Some texts alone get other vectors."""
    some = ", ".join(repr(text[:40]) for text in texts[:3])
    return Finding(
        verdict="tokenizer",
        found=f"{len(texts)} of {count} texts are read otherwise, in a way that doctor does not know: {some}",
        expected=f"texts are read {OWN}",
        advice="Serve the tokenizer.json (or vocabulary) that lies beside the model.",
    )


def odd_long_texts(texts: Sequence[str]) -> Finding:
    """Long texts alone get other vectors."""
    return Finding(
        verdict="truncation",
        found=f"{len(texts)} long texts get other vectors, in a way that doctor does not know (chunks?)",
        expected="texts are cut after as many tokens as the model takes",
        advice="Look for what the server does with long texts: chunks, windows, another end.",
    )


def rounded(cosine: float, limit: float) -> Finding:
    """Small deviations without structure."""
    within = cosine >= limit
    return Finding(
        verdict="quantized" if within else "coarse",
        found=f"small deviations without structure, as of quantized weights: mean cosine {cosine:.4f}",
        expected=f"at least {limit:g}",
        advice="That is what quantization costs; float16 would be nearer."
        if within
        else "Take a finer quantization (8 bits, per channel), or float16.",
    )


def unexplained(unrelated: bool, cosine: float, kept: float) -> Finding:
    """Nothing fits."""
    if kept > 0.999:
        found = "the numbers are another model's or are turned: similarities are the model's, vectors are not"
        advice = "The vectors work among themselves; never mix them with the model's own."
    elif unrelated:
        found = f"the vectors have nothing to do with the model's (mean cosine {cosine:.4f})"
        advice = "Look which model the server has loaded."
    else:
        found = f"not this model, or a mistake that doctor does not know (mean cosine {cosine:.4f})"
        advice = "Look which model, revision and tokenizer the server has loaded."
    unclear = kept > 0.999 or not unrelated
    return Finding(
        verdict="unclear" if unclear else "another-model",
        found=found,
        expected="the model's vectors",
        advice=advice,
    )


def other_dimension(found: int, expected: int) -> Finding:
    """Vectors of more numbers than the model makes."""
    return Finding(
        verdict="another-model",
        found=f"the vectors have {found} numbers, the model's have {expected}",
        expected=f"{expected} numbers",
        advice="Look which model the server has loaded.",
    )


def cut_short(found: int, expected: int, again: bool, source: ModelSource) -> Finding:
    """The first numbers of each vector."""
    trained = source.matryoshka
    if found in trained and again:
        advice = f"Ask for all {expected}, or say that it is meant: --dimensions {found}."
    elif not again:
        advice = "Normalize the vectors again after the cut."
    else:
        known = f", only for {', '.join(map(str, trained))}" if trained else ""
        advice = f"Ask for all {expected} numbers: the model was not trained to be cut to {found}{known}."
    return Finding(
        verdict="dimension",
        found=f"vectors are cut to {found} numbers" + ("" if again else ", and not normalised again"),
        expected=f"{expected} numbers",
        advice=advice,
    )


def wrong_length(lengths: Numbers, ratios: Numbers, vectors: Vectors, normalize: bool) -> Finding:
    """Right directions of other lengths."""
    low, high = float(lengths.min()), float(lengths.max())
    ratio = float(ratios.mean())
    found = f"vectors are of lengths from {low:.3g} to {high:.3g}"
    if high - low < 0.02 * high:
        found = f"vectors are all of length {low:.3g}"
    elif np.ptp(ratios) < 0.02 * ratio:
        found += " (not normalised)" if abs(ratio - 1) < 0.02 else f" (not normalised, times {ratio:.3g})"
    if (vectors == np.round(vectors)).all():
        found += ", of whole numbers: quantized to integers"
    return Finding(
        verdict="normalisation",
        found=found,
        expected="vectors are of length 1" if normalize else "vectors are as they come from pooling",
        advice="Normalize in the server (--normalize), or divide each vector by its length in the client."
        if normalize
        else "Switch normalisation off, or compare by cosine alone.",
    )


def differences(hypothesis: Hypothesis, expected: Hypothesis) -> str:
    """What is different about a hypothesis, in a few words."""
    said = {
        name: getattr(hypothesis, name)
        for name in (each.name for each in fields(Hypothesis))
        if getattr(hypothesis, name) != getattr(expected, name)
    }
    return ", ".join(
        f"{name} {f'to {value.to}' if isinstance(value, Padding) else value!r}"
        for name, value in said.items()
    )
