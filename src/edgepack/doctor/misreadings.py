"""How a server may read a text otherwise than the model's own tokenizer does."""

import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from edgepack.models.read.panics import panics_reported
from edgepack.models.read.tokenizer import minimal_json
from edgepack.models.reference import well_formed
from edgepack.records.model import ModelSource

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Document = dict[str, Any]
OWN = "as the model's tokenizer does"


@dataclass(frozen=True)
class Misreading:
    """One way: something done to tokenizer.json, or to the text before."""

    advice: str
    """What takes it back."""
    edit: Callable[[Document], None] = lambda document: None
    text: Callable[[str], str] = lambda text: text


def _steps(part: Any) -> Iterator[Document]:
    """A normalizer or pre-tokenizer and all that it is made of."""
    if isinstance(part, dict):
        yield part
        for inner in (*part.get("normalizers", ()), *part.get("pretokenizers", ())):
            yield from _steps(inner)


def _set(where: str, kind: str, **values: Any) -> Callable[[Document], None]:
    def edit(document: Document) -> None:
        for step in _steps(document.get(where)):
            if step["type"] == kind:
                step.update(values)

    return edit


def _without(*kinds: str) -> Callable[[Document], None]:
    """Normalizers of these kinds are left out."""

    def edit(document: Document) -> None:
        part = document.get("normalizer")
        steps = part["normalizers"] if part and part["type"] == "Sequence" else [part] if part else []
        kept = [step for step in steps if step["type"] not in kinds]
        document["normalizer"] = {"type": "Sequence", "normalizers": kept}

    return edit


def _unprefixed(document: Document) -> None:
    """No space is put before the first word."""
    for step in _steps(document.get("pre_tokenizer")):
        if "add_prefix_space" in step:
            step["add_prefix_space"] = False
        if "prepend_scheme" in step:
            step["prepend_scheme"] = "never"
    _without("Prepend")(document)


def _at_white_space(document: Document) -> None:
    for step in _steps(document.get("pre_tokenizer")):
        if step["type"] == "BertPreTokenizer":
            step.clear()
            step["type"] = "WhitespaceSplit"


def without_accents(text: str) -> str:
    """Letters without the marks above and below them."""
    apart = unicodedata.normalize("NFD", text)
    return "".join(each for each in apart if unicodedata.category(each) != "Mn")


def _cased(document: Document) -> None:
    _set("normalizer", "BertNormalizer", lowercase=False)(document)
    _without("Lowercase")(document)


def _accented(document: Document) -> None:
    _set("normalizer", "BertNormalizer", strip_accents=False)(document)
    _without("StripAccents", "NFD")(document)


def _unchanged(document: Document) -> None:
    document["normalizer"] = None


MISREADINGS: Mapping[str, Misreading] = {
    OWN: Misreading(""),
    "not lower-cased": Misreading("make the server's tokenizer lower-case (do_lower_case = true)", _cased),
    "lower-cased": Misreading("stop lower-casing texts: the model is cased", text=str.lower),
    "accents kept": Misreading("make the server's tokenizer strip accents (strip_accents)", _accented),
    "accents stripped": Misreading("stop stripping accents (strip_accents = false)", text=without_accents),
    "lower-cased, accents stripped": Misreading(
        "stop lower-casing and stripping accents: the model is cased", text=lambda text: without_accents(text.lower())
    ),
    "not lower-cased, accents stripped": Misreading("make the server's tokenizer lower-case", _cased, without_accents),
    "not normalised": Misreading("use the normalizer of the model's tokenizer.json", _unchanged),
    "Chinese characters not apart": Misreading(
        "make the server's tokenizer set Chinese characters apart (tokenize_chinese_chars = true)",
        _set("normalizer", "BertNormalizer", handle_chinese_chars=False),
    ),
    "punctuation not apart": Misreading("split at punctuation too, as the model's tokenizer.json does", _at_white_space),
    "no space before the text": Misreading("put a space before the text, as tokenizer.json does", _unprefixed),
    "a space before the text": Misreading("put no space before the text", text=lambda text: " " + text),
    "line feeds as spaces": Misreading("pass line feeds on as they are", text=lambda text: text.replace("\n", " ")),
    "white space squeezed": Misreading("pass white space on as it is", text=lambda text: " ".join(text.split())),
    "Unicode as NFKC": Misreading("leave Unicode to the tokenizer", text=partial(unicodedata.normalize, "NFKC")),
    "UTF-8 taken for Latin-1": Misreading("decode texts as UTF-8", text=lambda text: text.encode().decode("latin-1")),
    "ASCII alone": Misreading("keep characters beyond ASCII", text=lambda text: text.encode("ascii", "ignore").decode()),
}  # fmt: skip
"""By name; each is one mistake."""


@dataclass(frozen=True, kw_only=True)
class Read:
    """A text as tokens."""

    first: tuple[int, ...]
    """Special tokens before it."""
    ids: tuple[int, ...]
    last: tuple[int, ...]
    """Special tokens after it."""


class Reader:
    """Texts read in any of the ways, each once."""

    def __init__(self, source: ModelSource) -> None:
        self._document = minimal_json(source)
        self._tokenizers: dict[str, Tokenizer] = {}
        self._known: dict[tuple[str, str], Read] = {}

    @panics_reported()
    def read(self, text: str, reading: str = OWN) -> Read:
        """The text's tokens, not cut."""
        key = (reading, text)
        if key not in self._known:
            written = MISREADINGS[reading].text(well_formed(text))
            tokenizer = self._tokenizer(reading)
            bare = tuple(tokenizer.encode(written, add_special_tokens=False).ids)
            whole = tuple(tokenizer.encode(written).ids)
            start = next((at for at in range(len(whole)) if whole[at : at + len(bare)] == bare), 0)
            self._known[key] = Read(first=whole[:start], ids=bare, last=whole[start + len(bare) :])
        return self._known[key]

    def affected(self, texts: tuple[str, ...], reading: str) -> tuple[int, ...]:
        """Places of the texts that this reading makes other tokens of."""
        return tuple(
            at for at, text in enumerate(texts) if self.read(text, reading).ids != self.read(text).ids
        )

    def _tokenizer(self, reading: str) -> "Tokenizer":
        if reading not in self._tokenizers:
            from tokenizers import Tokenizer

            document = json.loads(self._document)
            MISREADINGS[reading].edit(document)
            self._tokenizers[reading] = Tokenizer.from_str(json.dumps(document))
        return self._tokenizers[reading]
