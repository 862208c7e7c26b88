"""Words of languages, for ``prune-vocabulary``: Debian's word lists, fetched once by apt-get and held against their digests.

These are of the packages that provide `wordlist` in Debian 12; ``EDGEPACK_SOURCES`` may name a folder that holds the packages. Their licences
differ: they stay in the store and go into no bundle.
"""

from dataclasses import dataclass

from edgepack.context import BuildContext
from edgepack.errors import UsageError
from edgepack.fetch.debian import Package
from edgepack.fetch.unpack import unpack_download
from edgepack.foundry.sources.pinned import Archive, fetch_archives
from edgepack.terminal_text import did_you_mean

FOLDER = "usr/share/dict"
MOST = 400_000
"""Words of a list, evenly spread: the longest have millions of inflected forms, cut into the same pieces."""


@dataclass(frozen=True, kw_only=True)
class WordList:
    """A file of a package of bookworm, one word a line."""

    package: str
    """With its version, as the file is named."""
    file: str
    sha256: str


LISTS = {
    "bg": WordList(
        package="wbulgarian_4.1-7",
        file="bulgarian",
        sha256="12cc83b8bfb63dcf45bd761b78d7de9f277162cb2daf08d027690f99cfd70080",
    ),
    "ca": WordList(
        package="wcatalan_0.20111230b-14",
        file="catalan",
        sha256="2c40d465aeb050749f05849cf8512011214a99224ed5ee993d9930a33eb0e603",
    ),
    "da": WordList(
        package="wdanish_1.6.36-14",
        file="danish",
        sha256="221d3ee8bb0fb84559473687224c746fb1c392330e4142c3f24517ab8e8ad980",
    ),
    "de": WordList(
        package="wngerman_20161207-11",
        file="ngerman",
        sha256="9053a69641bcf59233055f1b3ca341046751534b2b32d1e32c67b23ab9b98fec",
    ),
    "en": WordList(
        package="wamerican_2020.12.07-2",
        file="american-english",
        sha256="c8f8e2b2ad0d37bfdd41f0e40f1e4c8e5f907467d768a1d3698b164e9617f0b4",
    ),
    "es": WordList(
        package="wspanish_1.0.30",
        file="spanish",
        sha256="a2b7504fb8c12deaf6c4e868f749a3d05a42caee348f0f5bb006238e925cde18",
    ),
    "fr": WordList(
        package="wfrench_1.2.7-2",
        file="french",
        sha256="a5cbe63b988adbdb973983aab5b76fe2b715e9a37b012f31ad1e925b1a4b4c29",
    ),
    "it": WordList(
        package="witalian_1.10",
        file="italian",
        sha256="dc6eb1423726ce838332936db078406b646d0f3773701a5b1566a68495ddf076",
    ),
    "nb": WordList(
        package="wnorwegian_2.2-4",
        file="bokmaal",
        sha256="570ad89de30238d31919f8d786a0019c48c7c750d5991fbc86671e4cfb384dfb",
    ),
    "nl": WordList(
        package="wdutch_1%3a2.20.19-2",
        file="dutch",
        sha256="79dc0dbbd9b3e029ba84423a804c635aca87105521962f9b4c3023399c94dc35",
    ),
    "nn": WordList(
        package="wnorwegian_2.2-4",
        file="nynorsk",
        sha256="570ad89de30238d31919f8d786a0019c48c7c750d5991fbc86671e4cfb384dfb",
    ),
    "pl": WordList(
        package="wpolish_20220301-1",
        file="polish",
        sha256="78d94681b9838aeb8419629d5ce378085e0db6a22517c3c170aa883451cc9ccf",
    ),
    "pt": WordList(
        package="wportuguese_20220621-1",
        file="portuguese",
        sha256="82d6aeca20d072bbe962db68e4c50d3cce76ecb12295608692dff4638daec2a0",
    ),
    "sv": WordList(
        package="wswedish_1.4.5-3",
        file="swedish",
        sha256="be46153a738e7db1e4c8f1212e850197da4ab50c5edc543b3fb48d908b8d9f2a",
    ),
    "uk": WordList(
        package="wukrainian_1.8.0+dfsg-1",
        file="ukrainian",
        sha256="19f04ca296dd512095c378168f7812d67b1b31e7f6622d9a20e5dac834482846",
    ),
}
"""ISO 639-1 → its list."""


def word_list(language: str) -> WordList:
    """The list of a language. Raises ``UsageError`` for one that has none."""
    if language not in LISTS:
        raise UsageError(
            f"no words of the language {language!r} are known{did_you_mean(language, LISTS)}",
            hint=f'languages: {", ".join(LISTS)}; of others, name texts: corpus = "texts.txt"',
        )
    return LISTS[language]


def words_of(language: str, *, context: BuildContext) -> tuple[str, ...]:
    """Words of a language, ``MOST`` at most. Raises ``UsageError`` for one without a list, and what ``fetch_archives`` raises."""
    of = word_list(language)
    name = of.package.partition("_")[0]
    archive = Archive(
        file=f"{of.package}_all.deb",
        sha256=of.sha256,
        debian=Package(suite="bookworm", kind="deb", name=name),
    )
    (fetched,) = fetch_archives([(archive,)], context=context)
    folder = context.work_dir / "words" / name
    unpack_download(fetched, folder, keep=[f"{FOLDER}/{of.file}"])
    words = _decoded((folder / FOLDER / of.file).read_bytes()).split()
    return tuple(words[:: -(-len(words) // MOST)])


def _decoded(content: bytes) -> str:
    """Older lists are in Latin-1."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")
