"""A vocabulary of 250,000 tokens for one, two and ten languages: what is left of it, what that weighs, and what becomes of other texts.

    PYTHONPATH=. python benchmarks/vocabularies.py                  # or profiles of one's own: vocabularies.py en en,de

The vocabulary is the first 250,002 tokens of ``tokenlearn-static-model``'s, which is XLM-R's with few changes; the table is as wide as
multilingual-E5-small's. What is not among the words that a profile is made of are lines of manual pages: names, commands and loan words with
them.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
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
PROFILES = ("en", "de", "en,de", "en,de,fr,es,it,pl,pt,nl,sv,uk")
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
        profiles = [each.split(",") for each in sys.argv[1:] or PROFILES]
        kept = {
            each: used_rows(document, in_texts(words_of(each, context=context)), padding=0, wordless=True)
            for each in dict.fromkeys(chain(*profiles))
        }
        whole: Sequence[int] = range(TOKENS)
        # What several languages use is what each of them does.
        chosen = [sorted({row for each in profile for row in kept[each]}) for profile in profiles]
        for name, rows in zip(["all", *map(", ".join, profiles)], [whole, *chosen], strict=True):
            size = len(rows) * WIDTH / 1e6
            text = json.dumps(pruned_tokenizer(document, rows), ensure_ascii=False).encode()
            add_row(
                made,
                name,
                f"{len(rows):,}",
                *(f"{each:.1f}" for each in (4 * size, size, len(text) / 1e6)),
                *same(document, rows, lines),
            )
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


def same(document: dict[str, Any], rows: Sequence[int], lines: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Shares of the lines of each language that are cut up as before."""
    together = [(language, line) for language in READ for line in lines[language]]
    others = Counter(together[at][0] for at in other_tokens(document, rows, [line for _, line in together]))
    for language in READ:
        yield f"{1 - others[language] / len(lines[language]):.1%}"


if __name__ == "__main__":
    main()
