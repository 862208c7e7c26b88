"""What a bundle's model is for: embeddings, or, with a head behind the encoder, ranking or classifying."""

from __future__ import annotations

from ..base.errors import UsageError
from .options import INSTEAD, flag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from ..base.bundle import Bundle

NOUNS = {"rank": "a reranker", "classes": "a classifier"}
WAYS = {
    "rank": 'embed --rerank "a query" ranks texts',
    "classes": "embed --classify says what texts are",
}


def require_task(options: Namespace, bundle: Bundle) -> None:
    """Raises ``UsageError`` for what the bundle's model is not made for."""
    name, option = bundle.value("model", "name"), asked(options)
    if bundle.task is None:
        if option:
            raise UsageError(
                f"{option}: {name} is an embedding model",
                'embed search "a query" FILE finds the nearest texts; for scores, build a bundle of a reranker or a classifier',
            )
        return
    if option == ("--classify" if bundle.task == "rank" else "--rerank"):
        raise UsageError(f"{name} is {NOUNS[bundle.task]}", WAYS[bundle.task])
    embeds = not any(getattr(options, name) for name in INSTEAD if name != "similarity")
    if not option and embeds and not options.features and not options.tokens:
        raise refusal(bundle)
    if option:
        _check(options, option)


def asked(options: Namespace) -> str:
    """The option that asks for scores; empty: none does."""
    if options.rerank is not None:
        return "--rerank"
    return "--classify" if options.classify else "--pairs" if options.pairs else ""


def refusal(bundle: Bundle) -> UsageError:
    """For whoever wants vectors of a model that has none to give."""
    name, task = bundle.value("model", "name"), str(bundle.task)
    return UsageError(f"{name} is {NOUNS[task]}: its vectors are not for comparing texts", WAYS[task])


def _check(options: Namespace, option: str) -> None:
    if options.pairs and (options.rerank is not None or not options.jsonl):
        said = "cannot be used with --rerank" if options.rerank is not None else "requires --jsonl"
        raise UsageError(f"--pairs {said}", 'each object has its own "query" beside its text')
    if instead := next((name for name in INSTEAD if getattr(options, name)), None):
        raise UsageError(f"{option} cannot be used with {flag(instead)}")
    shaped = (
        options.output_format in ("npy", "raw") or options.dtype != "f32" or options.dim or options.prefix
    )
    if shaped:
        raise UsageError(
            f"{option} writes no vectors: --out npy and raw, --dtype, --dim and --prefix do not apply"
        )
