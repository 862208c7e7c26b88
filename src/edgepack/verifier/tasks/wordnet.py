"""WordNet's words and glosses: a retrieval task of 117,000 short texts, out of Debian's package ``wordnet-base``.

A word that has one meaning only is a question, the gloss of that meaning the answer. The package is fetched once, by
apt-get into a folder of our own, and held against its digest;
``EDGEPACK_SOURCES`` may name a folder that holds it.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import EdgepackError
from edgepack.fetch.debian import Package
from edgepack.fetch.unpack import unpack_download
from edgepack.foundry.sources.pinned import Archive, fetch_archives

ARCHIVE = Archive(
    file="wordnet-base_1%3a3.0-37_all.deb",
    sha256="61060d960f9ada8fa120872312eccd3ecebfbab8c4579e4f5a74e1cf67620752",
    debian=Package(suite="bookworm", kind="deb", name="wordnet-base"),
)
FOLDER = "usr/share/wordnet"
FILES = ("data.noun", "data.verb", "data.adj", "data.adv")
SYNSETS = "synsets.json"
SCHEMA = "1"


class NoWordNet(Exception):  # noqa: N818 - a statement about this machine, not a failure
    """WordNet cannot be had here; the reason goes into the report."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class Task:
    """Texts to search among, and words to search for them with."""

    glosses: tuple[str, ...]
    words: tuple[str, ...]
    belongs: tuple[int, ...]
    """For each word the index of its gloss."""


def retrieval_task(*, glosses: int, words: int, context: BuildContext) -> Task:
    """The same choice of glosses and words on every machine; raises ``NoWordNet``.

    ``glosses`` are chosen by their digest, so that a smaller choice is a part of a larger one; of these the first
    ``words`` whose word has no other meaning are asked for.
    """
    chosen = _synsets(context)[:glosses]
    asked = [(at, word) for at, (word, _, alone) in enumerate(chosen) if alone][:words]
    return Task(
        glosses=tuple(gloss for _, gloss, _ in chosen),
        words=tuple(word for _, word in asked),
        belongs=tuple(at for at, _ in asked),
    )


def fetch_wordnet(*, context: BuildContext) -> None:
    """Bring WordNet into the store, or say why that cannot be done: the gate works without it."""
    try:
        context.note(f"{len(_synsets(context)):,} glosses of WordNet")
    except NoWordNet as missing:
        context.note(missing.reason)


def _synsets(context: BuildContext) -> list[tuple[str, str, bool]]:
    """Word, gloss, and whether the word has no other meaning, in the order of the glosses' digests."""

    def make(folder: Path) -> None:
        (archive,) = fetch_archives([(ARCHIVE,)], context=context)
        unpacked = context.work_dir / "wordnet"
        unpack_download(archive, unpacked, keep=[FOLDER])
        (folder / SYNSETS).write_text(json.dumps(read_synsets(unpacked / FOLDER)), encoding="utf-8")

    try:
        folder = context.store.cached("wordnet", {"sha256": ARCHIVE.sha256, "schema": SCHEMA}, make)
    except EdgepackError as error:
        raise NoWordNet(f"WordNet is not at hand: {error.message}") from error
    return [tuple(entry) for entry in json.loads((folder / SYNSETS).read_text(encoding="utf-8"))]


def read_synsets(folder: Path) -> list[tuple[str, str, bool]]:
    """Synsets out of WordNet's own files (https://wordnet.princeton.edu/documentation/wndb5wn)."""
    entries = [entry for name in FILES for entry in _entries(folder / name)]
    meanings = Counter(word.lower() for words, _ in entries for word in set(words))
    unique = {gloss: words[0] for words, gloss in reversed(entries)}
    chosen = [(word, gloss, meanings[word.lower()] == 1) for gloss, word in unique.items()]
    return sorted(chosen, key=lambda entry: hashlib.sha256(entry[1].encode()).hexdigest())


def _entries(file: Path) -> Iterator[tuple[list[str], str]]:
    """The words of each synset, and its gloss without the examples."""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):  # the licence
            continue
        data, _, gloss = line.partition(" | ")
        fields = data.split()
        count = int(fields[3], 16)
        words = [word.partition("(")[0].replace("_", " ") for word in fields[4 : 4 + 2 * count : 2]]
        yield words, gloss.partition('; "')[0].strip()
