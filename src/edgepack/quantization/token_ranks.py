"""How often tokens are met, as the order of a vocabulary says it."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgepack.models.read.documents import read_object

Ranks = npt.NDArray[np.int64]


def token_ranks(tokenizer: Path | None, rows: int, *, pieces: bool = False) -> Ranks:
    """For each of a table's rows the place of its token among ``rows``, the most frequent first.

    Vocabularies begin with the tokens that are met most often. SentencePiece's BPE has single characters, spaces and commas among
    them, behind all that is merged of them: these are ranked by themselves. With ``pieces`` so are WordPiece's of one or two characters, of
    which texts in other scripts, and what is no word, consist.
    """
    ranks = np.arange(rows)
    found = characters_of(tokenizer, pieces=pieces) if tokenizer else []
    if found and found[-1] < rows:
        ranks[found] = np.arange(len(found))
    return ranks


def characters_of(tokenizer: Path, *, pieces: bool = False) -> list[int]:
    """The tokens of one character in a vocabulary of SentencePiece's BPE, in order, and with ``pieces`` those of one or two in WordPiece's;
    none in others.
    """
    model = read_object(tokenizer).get("model") or {}
    if pieces and model.get("type") == "WordPiece":
        prefix = model.get("continuing_subword_prefix") or ""
        return sorted(token for text, token in model["vocab"].items() if len(text.removeprefix(prefix)) <= 2)
    if model.get("type") != "BPE" or not model.get("byte_fallback"):
        return []
    return sorted(token for text, token in model["vocab"].items() if len(text) == 1)
