"""A finished bundle judged, whatever runs its program: all that is asked of it, in one order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource
from edgepack.records.report import Verification
from edgepack.records.target import ModelOptions
from edgepack.verifier.copies import require_used_files
from edgepack.verifier.facts import not_asked, require_precision, require_promises
from edgepack.verifier.gate import Embed, texts_for_strangers, verification_texts, verify
from edgepack.verifier.proofs import require_golden, require_other_forms
from edgepack.verifier.run import BundleRunner

AtLevels = Callable[[Sequence[str], Verification], Verification]
"""The figures with those of other CPU levels, whose programs are asked for the vectors of the texts."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A bundle, and by what it is judged."""

    bundle: Bundle
    source: ModelSource
    options: ModelOptions
    seed: int | None
    """Draws texts of which no program can know its answers; ``None``: none are drawn."""
    said: tuple[str, ...] | None = None
    """What of a stranger's bundle is its maker's word alone, in words; ``None``: the bundle was made here."""


def judge(
    asked: Judged,
    runner: BundleRunner,
    embed: Embed,
    *,
    at_levels: AtLevels,
    others: Path | None = None,
    tokenizer: bool = True,
    copies: bool = True,
    context: BuildContext,
) -> Verification:
    """Run the bundle by ``embed`` and ``runner``, and compare: with the model, with its golden vectors, with its promises.

    A stranger's program is asked drawn texts in every way in which it is asked, at other CPU levels and in other forms, too. ``copies``: whether those
    with zeros for a part are run. Raises ``VerificationError``, ``ProofError`` and ``BundleError``.
    """
    bundle, source = asked.bundle, asked.source
    found = verify(
        bundle,
        source,
        embed,
        options=asked.options,
        program=runner,
        tokenizer=tokenizer,
        others=others,
        seed=asked.seed,
        context=context,
    )
    require_precision(bundle, found)
    require_golden(bundle, embed)
    # A bundle of ours is held to its own limits, which are of the published texts.
    texts = verification_texts()
    if asked.said is not None:
        assert asked.seed is not None
        found, texts = replace(found, said=asked.said), texts_for_strangers(source, asked.seed)
    if found.status == "passed":
        found = at_levels(texts, found)
    if asked.said is not None:
        if found.status == "passed":
            require_other_forms(bundle, embed, texts, asked.options, context)
        require_promises(bundle, source, found)
        found = replace(found, said=(*found.said, *not_asked(bundle, source, found)))
    if copies:
        require_used_files(bundle, embed, context=context)
    runner.require_server(bundle)
    return found
