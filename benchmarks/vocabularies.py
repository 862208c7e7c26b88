"""A vocabulary of 250,000 tokens for one, two and ten languages: what is left of it, what that weighs, and what becomes of other texts.

    PYTHONPATH=. python benchmarks/vocabularies.py

The vocabulary is the first 250,002 tokens of ``tokenlearn-static-model``'s, which is XLM-R's with few changes; the table is as wide as
multilingual-E5-small's. What is not among the words that a profile is made of are lines of manual pages: names, commands and loan words with
them.
"""

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from tests.support.vocabularies import tokenlearn_model

from edgepack.console import Story
from edgepack.passes.prune_vocabulary import in_texts, other_tokens, pruned_tokenizer, used_rows
from edgepack.plugins.context import HostContext, host_context
from edgepack.recipes.word_lists import words_of
from edgepack.tables import Number, add_row, table
from edgepack.verifier.tasks.man_pages import translated_lines

TOKENS, WIDTH = 250_002, 384
PROFILES = (
    (),
    ("en",),
    ("de",),
    ("en", "de"),
    ("en", "de", "fr", "es", "it", "pl", "pt", "nl", "sv", "uk"),
)
READ = ("en", "de", "fr", "es", "pl", "ru", "ja")
"""Languages of the manual pages."""
LINES = 500
"""Of each, about, evenly spread."""


def main() -> None:
    with host_context(story=Story()) as context:
        document = vocabulary(context)
        lines = {name: some(sorted(of.values())) for name, of in translated_lines(context).items()}
        made = table(
            "languages",
            *map(Number, ("tokens", "table, float32 MB", "int8 MB", "tokenizer.json MB", *READ)),
        )
        kept = {
            each: used_rows(document, in_texts(words_of(each, context=context)), padding=0, wordless=True)
            for each in PROFILES[-1]
        }
        for profile in PROFILES:
            # What several languages use is what each of them does.
            rows = sorted({row for each in profile for row in kept[each]}) or range(TOKENS)
            size = len(rows) * WIDTH / 1e6
            text = json.dumps(pruned_tokenizer(document, rows), ensure_ascii=False).encode()
            add_row(
                made,
                ", ".join(profile) or "all",
                f"{len(rows):,}",
                *(f"{each:.1f}" for each in (4 * size, size, len(text) / 1e6)),
                *(f"{same(document, rows, lines[each]):.1%}" for each in READ),
            )
            context.note(f"{', '.join(profile)}: {len(rows):,}")
    Console(width=160).print(made)


def vocabulary(context: HostContext) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        (tokenlearn_model(context) / "tokenizer.json").read_text(encoding="utf-8")
    )
    document["padding"] = document["truncation"] = None
    document["model"]["vocab"] = document["model"]["vocab"][:TOKENS]
    return document


def some(texts: list[str]) -> list[str]:
    return texts[:: max(1, len(texts) // LINES)]


def same(document: dict[str, Any], rows: Sequence[int], texts: Sequence[str]) -> float:
    return 1 - len(other_tokens(document, rows, texts)) / len(texts)


if __name__ == "__main__":
    main()
