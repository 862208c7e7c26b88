"""The bundle's own tokenizer against Hugging Face's, where it has one: not one id may differ."""

from collections.abc import Callable, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from edgepack.errors import VerificationError
from edgepack.models.read.panics import panics_reported
from edgepack.models.read.tokenizer import minimal_json
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource
from edgepack.verifier.command import runs_itself
from edgepack.verifier.texts.fuzz import fuzz_texts_for

Tokenize = Callable[[Bundle, Sequence[str]], Sequence[Sequence[int]]]
"""A bundle's own tokenizer at work: the ids of each text."""

FUZZ_TEXTS = 4000
"""One of them is longer than the model takes."""
LONGEST = 32768
"""Tokens: what no model of a bundle takes more of, but for tables, which take any number."""
SEED = 20261121
COMPILED = b"EDGETOK1"
"""First bytes of a compiled tokenizer (``edgepack.runner.tokenizer.sections``)."""


def has_fewer_tokens(bundle: Bundle) -> bool:
    """Whether a pass has made another tokenizer than the model's."""
    return "prune-vocabulary" in str(bundle.manifest["model"].get("recipe", ""))


@panics_reported()
def compare_tokens(
    bundle: Bundle, source: ModelSource, texts: Sequence[str], tokens: Tokenize, *, seed: int | None = None
) -> int:
    """How many texts were compared: ``texts``, one that the model's length cuts, and fuzz texts of every script; 0 for a bundle without
    a compiled tokenizer, which its first bytes tell: its name is its maker's word. With ``seed`` the fuzz texts are others than those that are published.

    Raises ``VerificationError`` with the first text that the bundle's program gives other ids than the library, and what
    ``BundleRunner.tokens`` raises.
    """
    if not runs_itself(bundle) or not _is_compiled(
        bundle.directory / bundle.manifest["model"].get("tokenizer", "")
    ):
        return 0

    reference = Tokenizer.from_str(minimal_json(source))
    # Each word is at least one token.
    long = " ".join(["text"] * 2 * min(source.max_length, LONGEST))
    tried = [*texts, long, *fuzz_texts_for(reference, FUZZ_TEXTS - 1, seed=SEED if seed is None else seed)]
    reference.enable_truncation(source.max_length)
    found = tokens(bundle, tried)
    for text, encoding, ids in zip(tried, reference.encode_batch_fast(tried), found, strict=True):
        # The program gives a text of no tokens one of padding.
        if encoding.ids and list(ids) != encoding.ids:
            raise VerificationError(
                f"the bundle's tokenizer makes {first_difference(ids, encoding.ids)} of {text!r}, and tokenizers {first_difference(encoding.ids, ids)}",
                hint="please report it with the model's name; --target linux-x86 has the library",
            )
    return len(tried)


def _is_compiled(file: Path) -> bool:
    if not file.is_file():
        return False
    with file.open("rb") as stream:
        return stream.read(len(COMPILED)) == COMPILED


def first_difference(ids: Sequence[int], others: Sequence[int]) -> str:
    """Place where two lists begin to differ, and a little of this one from there."""
    at = next((at for at, pair in enumerate(zip(ids, others, strict=False)) if pair[0] != pair[1]), None)
    start = min(len(ids), len(others)) if at is None else at
    return f"{ids[start : start + 5]} at token {start}"
