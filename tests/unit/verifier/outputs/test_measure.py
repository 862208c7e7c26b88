"""The gate of sparse vectors and of vectors of tokens: planted faults are found."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.shortfalls import shortfalls_of
from tests.unit.models.outputs.test_three_heads import write_three

from edgepack.errors import UnsupportedModelError, VerificationError
from edgepack.models.find.source import ingest
from edgepack.models.read.tokenizer import load_tokenizer
from edgepack.models.token_reference import TextOutputs, reference_outputs
from edgepack.plugins.context import HostContext
from edgepack.plugins.supported_outputs import with_supported_outputs
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource
from edgepack.verifier.outputs.measure import STEP, measure_outputs
from edgepack.verifier.texts.drawn import drawn_texts
from edgepack.verifier.texts.long import long_texts

# Weights of three heads are pickles, which a program of its own reads.
pytestmark = pytest.mark.tools("python")

TEXTS = [f"{'hello ' * (at % 7)}world {'small ' * (at % 5)}model{'s' * (at % 2)}" for at in range(60)]
BUNDLE = Bundle(directory=Path("bundle"), manifest={"model": {}})


@dataclass(frozen=True, kw_only=True)
class Program:
    """A bundle's program with a fault."""

    source: ModelSource
    context: HostContext
    noise: float = 0.0
    scale: float = 1.0
    """Of weights; directions of tokens' vectors have none."""
    known: frozenset[str] | None = None
    """Texts that it knows by heart; it makes others up."""
    drops: bool = False
    broken: bool = False
    cuts: int | None = None
    """Of a text with more words it reads the last ones first."""

    def outputs(self, bundle: Bundle, texts: Sequence[str], *, query: bool) -> list[TextOutputs]:
        if self.cuts is not None:
            texts = [cut_in_front(text, self.cuts) for text in texts]
        random = np.random.default_rng(2)
        exact = reference_outputs(self.source, texts, query=query, context=self.context)
        made = []
        for each in exact:
            noisy = each.vectors + random.normal(size=each.vectors.shape) * self.noise
            weights = {
                token: weight + abs(random.normal()) * self.noise for token, weight in each.sparse.items()
            }
            vectors = (noisy / np.linalg.norm(noisy, axis=1, keepdims=True)).astype(np.float32)
            made.append(TextOutputs(sparse=weights, vectors=vectors[1:] if self.drops else vectors))
        if self.known is not None and not self.known >= set(texts):
            made = [replace(_scaled(each, 2.0), vectors=each.vectors[::-1]) for each in made]
        made = [_scaled(each, self.scale) for each in made]
        if self.broken:
            made[3] = replace(made[3], sparse={5: float("nan")})
        return made


def cut_in_front(text: str, words: int) -> str:
    kept = text.split()
    return text if len(kept) <= words else " ".join(reversed(kept))


def _scaled(given: TextOutputs, scale: float) -> TextOutputs:
    return replace(given, sparse={token: weight * scale for token, weight in given.sparse.items()})


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, shared_context: HostContext) -> Program:
    folder = tmp_path_factory.mktemp("three") / "model"
    write_three(folder)
    return Program(source=ingest(str(folder), context=shared_context), context=shared_context)


def test_the_reference_itself_passes(program: Program) -> None:
    found = measure_outputs(program, BUNDLE, program.source, TEXTS, context=program.context)
    assert [each.name for each in found] == ["sparse", "multi_vector"]
    for each in found:
        assert (each.kept, each.texts) == (1, 30)
        assert each.tau == pytest.approx(1)
        assert each.agree == pytest.approx(1)
        assert each.largest < 1e-6
    assert not shortfalls_of(found, "fp32")


def test_noise_is_measured_and_judged(program: Program) -> None:
    noisy = replace(program, noise=0.01)
    found = measure_outputs(noisy, BUNDLE, program.source, TEXTS, context=program.context)
    assert [line for line in shortfalls_of(found, "fp32") if "largest difference of a number" in line]
    worse = measure_outputs(
        replace(program, noise=2.0), BUNDLE, program.source, TEXTS, context=program.context
    )
    assert "multi-vector: Kendall's tau" in " ".join(shortfalls_of(worse, "int8"))


@pytest.mark.parametrize("scale", [0.5, 1.25])
def test_weights_of_another_scale_are_found_though_their_order_is_right(
    program: Program, scale: float
) -> None:
    found = measure_outputs(
        replace(program, scale=scale), BUNDLE, program.source, TEXTS, context=program.context
    )
    assert found[0].tau == pytest.approx(1)
    (short,) = shortfalls_of(found, "int8")
    assert short.startswith("sparse: difference of numbers ")


def test_long_texts_that_are_cut_elsewhere_are_found(program: Program) -> None:
    """Those of the gate are shorter, and all that is measured on them is right."""
    cuts = replace(program, cuts=max(len(text.split()) for text in TEXTS))
    found = measure_outputs(cuts, BUNDLE, program.source, TEXTS, context=program.context)
    assert found[0].tau == pytest.approx(1) and found[0].largest < 1e-6
    (short,) = shortfalls_of(found, "int8")
    assert short.startswith("multi-vector: difference of numbers ")


def test_vectors_of_another_length_are_found(program: Program) -> None:
    class Halved(Program):
        def outputs(self, bundle: Bundle, texts: Sequence[str], *, query: bool) -> list[TextOutputs]:
            made = super().outputs(bundle, texts, query=query)
            return [replace(each, vectors=each.vectors / np.float32(2)) for each in made]

    halved = Halved(source=program.source, context=program.context)
    with pytest.raises(VerificationError, match="have other lengths than the model's"):
        measure_outputs(halved, BUNDLE, program.source, TEXTS, context=program.context)


def test_texts_known_by_heart_do_not_help_with_drawn_ones(program: Program) -> None:
    drawn = drawn_texts(load_tokenizer(program.source), TEXTS, seed=7)
    known = frozenset([*TEXTS, *long_texts(program.source, TEXTS[::STEP])])
    for each, expected in (
        (program, []),
        (replace(program, known=known), ["sparse", "sparse", "multi-vector", "multi-vector"]),
    ):
        found = measure_outputs(each, BUNDLE, program.source, TEXTS, drawn=drawn, context=program.context)
        short = shortfalls_of(found, "int8")
        assert [line.partition(": difference of numbers ")[0] for line in short] == expected


def test_a_token_too_few_is_found(program: Program) -> None:
    with pytest.raises(VerificationError, match=r"vectors .* for the tokens of"):
        measure_outputs(replace(program, drops=True), BUNDLE, program.source, TEXTS, context=program.context)


def test_numbers_that_are_none_are_found(program: Program) -> None:
    with pytest.raises(VerificationError, match="not finite"):
        measure_outputs(replace(program, broken=True), BUNDLE, program.source, TEXTS, context=program.context)


def test_a_target_that_gives_less_is_told_before_anything_is_made(program: Program) -> None:
    source, context = program.source, program.context
    assert with_supported_outputs(source, ("sparse", "tokens"), "a", context=context) is source
    assert with_supported_outputs(source, None, "a", context=context) is source
    assert with_supported_outputs(source, (), "a", context=context).outputs is None
    assert source.outputs is not None
    alone = replace(source, outputs=replace(source.outputs, dense=False))
    with pytest.raises(
        UnsupportedModelError, match="and target tiny gives no vectors or weights of tokens"
    ) as found:
        with_supported_outputs(alone, ("sparse",), "tiny", context=context)
    assert "--target linux-x86-min" in (found.value.hint or "")
