"""The texts that are sent: few, and such that each mistake leaves its own trace."""

from collections.abc import Mapping, Sequence
from itertools import count

from edgepack.doctor.misreadings import MISREADINGS, Reader

MOST = 200
"""Texts that are sent alone and in small requests, those that are sent twice counted twice."""
LARGE = (33, 64, 128)
"""Texts of requests that are larger than what servers sort, pad and split alike: 32 is the usual limit."""
CORE = 12
OTHERS = 64
OF_A_KIND = 4
"""Texts for each way of reading that makes a difference."""
LONGEST = 640
"""Tokens; longer texts would take minutes on a large model."""
LONG_TOKENS = (100, 140, 270, 400, 530)
OWN_TEXTS = (
    "THE CAT SLEEPS IN THE WARM KITCHEN.",
    "Zoë's café in Málaga serves crème brûlée and piñata-shaped cakes.",
    "two  spaces   and\ta tab",
    "a line\nanother line\n\nand a third",
    " a space before and one after ",
)


def core_texts(texts: Sequence[str], reader: Reader) -> list[str]:
    """Texts of very different lengths that are read alike by every way of reading, as far as there are such."""
    short = [text for text in dict.fromkeys(texts) if 1 <= len(reader.read(text).ids) <= 60]
    odd = {short[at] for name in MISREADINGS for at in reader.affected(tuple(short), name)}
    plain = [text for text in short if text not in odd]
    ranked = sorted(plain, key=lambda text: len(reader.read(text).ids))
    if len(ranked) < CORE:
        ranked += [text for text in short if text in odd][: CORE - len(ranked)]
    step = (len(ranked) - 1) / (CORE - 1)
    chosen = [ranked[round(at * step)] for at in range(CORE)] if len(ranked) > CORE else ranked
    # Neighbours of other lengths: batches are padded wherever they are cut.
    return [*chosen[::2], *chosen[1::2][::-1]]


def other_texts(
    texts: Sequence[str], core: Sequence[str], prompts: Mapping[str, str], reader: Reader
) -> list[str]:
    """Some for each way of reading, some with a prompt written out, and others, each once."""
    left = [text for text in (*OWN_TEXTS, *texts) if text not in core and len(reader.read(text).ids) <= 60]
    chosen = [prompt + core[0] for prompt in list(prompts.values())[:OF_A_KIND]]
    for name in MISREADINGS:
        chosen += [left[at] for at in reader.affected(tuple(left), name)[:OF_A_KIND]]
    chosen += left[:: max(1, len(left) // OTHERS)]
    return list(dict.fromkeys(chosen))[:OTHERS]


def long_texts(texts: Sequence[str], length: int, reader: Reader) -> list[str]:
    """Texts of more and more tokens, from half of what the model takes to more than that; each begins as the one before it."""
    wanted = sorted(
        {size for size in (length // 2, length - 6, length + 10, *LONG_TOKENS) if 16 <= size <= LONGEST}
    )
    words = [word for text in texts for word in text.split()]
    made, used, tokens = [], 0, 0
    for size in wanted:
        for at in count(used):
            if tokens >= size:
                break
            tokens += len(reader.read(words[at % len(words)]).ids)
            used = at + 1
        made.append(" ".join(words[at % len(words)] for at in range(used)))
    return made


def some_of(texts: Sequence[str]) -> list[int]:
    """Places of at most ``MOST`` texts out of many: half of them as they follow each other, the others of all lengths."""
    first = {text: at for at, text in reversed(list(enumerate(texts))) if text.strip()}
    places = sorted(first.values())
    if len(places) <= MOST:
        return places
    ranked = sorted(places[MOST // 2 :], key=lambda at: len(texts[at]))
    spread = (ranked[round(at * (len(ranked) - 1) / (MOST // 2 - 1))] for at in range(MOST // 2))
    return sorted({*places[: MOST // 2], *spread})
