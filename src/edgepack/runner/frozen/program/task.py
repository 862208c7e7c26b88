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

SPARSE_WAY = "embed --sparse gives the weights of a text's tokens"


def require_task(options: Namespace, bundle: Bundle) -> None:
    """Raises ``UsageError`` for what the bundle's model is not made for."""
    name, option = bundle.value("model", "name"), asked(options)
    _require_outputs(options, bundle)
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


def asked_outputs(options: Namespace) -> str:
    """The option that asks for another output than vectors; empty: none does."""
    return (
        "--sparse"
        if options.sparse
        else "--multi-vector"
        if options.multi_vector
        else "--dense" * options.dense
    )


def _require_outputs(options: Namespace, bundle: Bundle) -> None:
    """The same of other outputs than vectors; this program gives sparse vectors alone."""
    name, option = bundle.value("model", "name"), asked_outputs(options)
    if bundle.outputs is None:
        if option:
            raise UsageError(
                f"{option}: {name} makes one vector of a text",
                "leave it out; SPLADE, ColBERT and BGE-M3 models give sparse vectors and vectors of tokens",
            )
        if options.output_format == "npz":
            raise UsageError("--out npz requires --sparse or --multi-vector", "for vectors: --out npy")
        return
    embeds = not any(getattr(options, name) for name in INSTEAD if name != "similarity")
    if not option and embeds and not options.features and not options.tokens:
        raise refusal(bundle)
    if options.output_format == "npz" and not option:
        raise UsageError("--out npz requires --sparse or --multi-vector", "for vectors: --out npy")
    if options.multi_vector or options.dense:
        raise UsageError(
            f"{'--multi-vector' if options.multi_vector else '--dense'}: {name} is a sparse encoder",
            SPARSE_WAY,
        )
    if option and (instead := next((name for name in (*INSTEAD, "tokens") if getattr(options, name)), None)):
        raise UsageError(f"{option} cannot be used with {flag(instead)}")
    if option and (options.output_format in ("npy", "raw", "table") or options.dtype != "f32" or options.dim):
        raise UsageError(f"{option} writes json, jsonl or npz in f32: --dtype and --dim do not apply")


def asked(options: Namespace) -> str:
    """The option that asks for scores; empty: none does."""
    if options.rerank is not None:
        return "--rerank"
    return "--classify" if options.classify else "--pairs" if options.pairs else ""


def refusal(bundle: Bundle) -> UsageError:
    """For whoever wants vectors of a model that has none to give."""
    if bundle.outputs:
        name = bundle.value("model", "name")
        return UsageError(f"{name} is a sparse encoder: it has no one vector for a text", SPARSE_WAY)
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
