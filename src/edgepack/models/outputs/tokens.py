"""Tokens by what they are called, of a model's folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from edgepack.models.read.model_folder import ModelFolder
from edgepack.models.read.sentence_transformers import TOKENIZER_FILE
from edgepack.models.read.tokenizer import open_tokenizer

SPECIAL = "special_tokens_map.json"


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """A tokenizer, and what its files call its special tokens."""

    tokenizer: Tokenizer
    named: Mapping[str, Any]
    files: tuple[str, ...]
    """Those that name special tokens."""

    @classmethod
    def read(cls, folder: ModelFolder, tokenizer: Path) -> Tokens:
        """Raises ``ModelError``."""
        files = tuple(name for name in (SPECIAL, TOKENIZER_FILE) if folder.has(name))
        named: dict[str, Any] = {}
        for name in files:
            named |= folder.optional(name)
        return cls(tokenizer=open_tokenizer(tokenizer), named=named, files=files)

    def special(self, name: str) -> int | None:
        """The id of e.g. ``mask_token``."""
        said = self.named.get(name)
        content = said.get("content") if isinstance(said, dict) else said
        return self.id_of(content) if isinstance(content, str) else None

    def id_of(self, token: str) -> int | None:
        try:
            found: int | None = self.tokenizer.token_to_id(token)
        except UnicodeEncodeError:  # a half of a character
            return None
        return found

    def ids_of(self, tokens: Iterable[str]) -> tuple[int, ...]:
        """Those of these tokens that there are, sorted."""
        return tuple(sorted({found for token in tokens if (found := self.id_of(token)) is not None}))
