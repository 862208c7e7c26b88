"""Man pages in six languages: what each is about, in a line, has to find the English line of the same page.

The pages come out of Debian's packages ``manpages-*``, fetched once by apt-get into a folder of our own, and held against their digests
(bookworm, section doc); ``EDGEPACK_SOURCES`` may name a folder that holds them. Their licences differ by page:
they stay in the store and go into no bundle.
"""

import gzip
import json
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgepack.context import BuildContext
from edgepack.fetch.debian import Package
from edgepack.fetch.unpack import unpack_download
from edgepack.foundry.sources.pinned import Archive, fetch_archives
from edgepack.models.read.tokenizer import highest_token, open_tokenizer
from edgepack.records.model import ModelSource
from edgepack.verifier.tasks.task import Task, positions

PACKAGES = {
    "": ("manpages_6.03-2", "efa1ba4cd19ad7baeae959c9209a7eb74be2ebb858bcabb412597bfc9f588c91"),
    "dev": ("manpages-dev_6.03-2", "96f55cb5e26231d5567c89b692bced63825a14a2d5bd18fdf16ea2ed44eb9838"),
    "de": ("manpages-de_4.18.1-1", "37d2e7ee51f22952aecec3af93647ff59194a3c74bb7a694560f49c7f7ab3978"),
    "es": ("manpages-es_4.18.1-1", "d21e9f85e487f149ae45b5c525b2b1a70ae7fd38d4b05b47c8753042c66f4c2b"),
    "fr": ("manpages-fr_4.18.1-1", "ec29759cc0e4a44dc7719c1e32869d0060667049e584f09556f0d982b969ea33"),
    "ja": (
        "manpages-ja_0.5.0.0.20221215+dfsg-1",
        "4d270e9a1e83be4de0c072a110892a17dc9caa4b501257324006ac28d82c5743",
    ),
    "pl": ("manpages-pl_1%3a4.18.1-1", "31e518ea8331b5204d4fd0032037f96af1ba94a5afa4f0585dca1996b270cdf9"),
    "ru": ("manpages-ru_4.18.1-1", "5d5821dad5840652ba9c1c6b85bdc785c1fc52148a71c18fab6658c9659244c0"),
}
"""Language (two packages are English) → package with its version, digest."""
ENGLISH = ("", "dev")
MULTILINGUAL = 100_000
"""Tokens that the vocabulary of a model for many languages has at least."""
LINES = "lines.json"
SCHEMA = "1"
_NAME = re.compile(r"^\.SH .*\n((?:(?!\.S[HS]).*\n)+)", re.MULTILINE)
"""A page's first section, whatever its language calls it."""
_ROFF = (
    (r"\\f(\[\w*\]|\(..|.)|\\[&/,|^c]|\"", ""),
    (r"\\\(aq", "'"),
    (r"\\[~ ]", " "),
    (r"\\-", "-"),
    (r"(^|\s)\.\w+", ""),
    (r"\s+", " "),
)

Lines = dict[str, dict[str, str]]
"""Language → page → what it is about."""


def is_multilingual(source: ModelSource) -> bool:
    """Whether a model's vocabulary is one for many languages; config.json of a static model does not say how large it is."""
    tokens = int(source.config.get("vocab_size") or 0) or highest_token(open_tokenizer(source.tokenizer)) + 1
    return tokens >= MULTILINGUAL


def man_pages_task(*, context: BuildContext) -> Task:
    """Share of the translated lines whose nearest English one is that of the same page. Raises what ``fetch_archives`` raises."""
    lines = translated_lines(context)
    english = lines.pop("en")
    asked = [(text, page) for of in lines.values() for page, text in sorted(of.items())]
    pages = sorted({page for _, page in asked})
    texts, (queries, answers) = positions([text for text, _ in asked], [english[page] for page in pages])
    among, place = np.unique(answers, return_inverse=True)
    of_page = dict(zip(pages, place.tolist(), strict=True))
    belongs = np.asarray([of_page[page] for _, page in asked])

    def score(vectors: NDArray[np.float32]) -> float:
        wide = vectors.astype(np.float64)
        units = wide / np.linalg.norm(wide, axis=1, keepdims=True)
        return float(((units[queries] @ units[among].T).argmax(axis=1) == belongs).mean())

    what = f"English line found, {len(asked):,} of man pages in {len(lines)} languages among {len(among):,}"
    return Task(limit="max_translation_loss", what=what, texts=texts, score=score)


def translated_lines(context: BuildContext) -> Lines:
    """Subjects of pages, by language; English has all that others have."""

    def make(folder: Path) -> None:
        archives = {language: _archive(*package) for language, package in PACKAGES.items()}
        fetched = fetch_archives([(each,) for each in archives.values()], context=context)
        unpacked = context.work_dir / "man-pages"
        found: Lines = {}
        for language, package in zip(archives, fetched, strict=True):
            unpack_download(package, unpacked / f"of-{language}", keep=["usr/share/man"])
            of = read_pages(unpacked / f"of-{language}")
            found.setdefault("en" if language in ENGLISH else language, {}).update(of)
        (folder / LINES).write_text(json.dumps(_translated(found)), encoding="utf-8")

    inputs = {"schema": SCHEMA, "packages": " ".join(sha256 for _, sha256 in PACKAGES.values())}
    folder = context.store.cached("man-pages", inputs, make)
    lines: Lines = json.loads((folder / LINES).read_text(encoding="utf-8"))
    return lines


def _archive(name: str, sha256: str) -> Archive:
    package = Package(suite="bookworm", kind="deb", name=name.partition("_")[0])
    return Archive(file=f"{name}_all.deb", sha256=sha256, debian=package)


def _translated(found: Lines) -> Lines:
    """Translations: of every language the pages that English has, too, but for those that were left in English."""
    english = found["en"]
    return {
        language: {
            page: text
            for page, text in sorted(of.items())
            if page in english and (language == "en" or text != english[page])
        }
        for language, of in found.items()
    }


def read_pages(folder: Path) -> dict[str, str]:
    """Page, as ``man7/utf-8.7``, → the line that says what it is about, of all pages below a folder."""
    pages: Iterable[Path] = sorted(folder.rglob("man[1-8]/*.gz"))
    read = ((page, page_line(gzip.decompress(page.read_bytes()))) for page in pages if page.is_file())
    return {f"{page.parent.name}/{page.stem}": line for page, line in read if line}


def page_line(content: bytes) -> str:
    """Subject of a page, without roff; empty where it does not say so in the usual form, ``name \\- line``."""
    try:
        found = _NAME.search(content.decode("utf-8"))
    except UnicodeDecodeError:
        return ""
    said = [
        line for line in (found[1] if found else "").split("\n") if not line.startswith(('.\\"', "'\\\""))
    ]
    _, dash, line = " ".join(said).partition(r" \- ")
    for pattern, instead in _ROFF if dash else ():
        line = re.sub(pattern, instead, line)
    return "" if "\\" in line else line.strip()
