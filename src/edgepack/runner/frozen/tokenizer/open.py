"""The bundle's tokenizer, whichever it has."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..base.bundle import Bundle
    from .compiled import CompiledTokenizer
    from .hugging_face import HuggingFaceTokenizer


def open_tokenizer(
    bundle: Bundle, *, max_length: int, threads: int
) -> HuggingFaceTokenizer | CompiledTokenizer:
    """The bundle's tokenizer. Raises ``BundleError``, or ``UsageError`` for a length that leaves no room.

    Only the module that is used is imported: a program has the library for one of the two.
    """
    if bundle.tokenizer.endswith(".bin"):
        from .compiled import CompiledTokenizer

        return CompiledTokenizer(bundle.tokenizer, directory=bundle.directory, max_length=max_length)
    from .hugging_face import HuggingFaceTokenizer

    return HuggingFaceTokenizer(bundle.tokenizer, max_length=max_length, threads=threads)
