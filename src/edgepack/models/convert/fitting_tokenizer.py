"""A tokenizer that gives no token which the model has no vector of.

EmbeddingGemma's tokenizer.json is that of all models of its family: it names ``<image_soft_token>``, one past the last row of the table.
"""

import json
from pathlib import Path

from tokenizers import Tokenizer

from edgepack.context import BuildContext
from edgepack.errors import ModelError
from edgepack.files.store import digest_of_code
from edgepack.models.convert.older_tokenizer import FILE
from edgepack.models.read.documents import read_object
from edgepack.models.read.panics import panics_reported
from edgepack.models.read.tokenizer import highest_token, open_tokenizer


def fitting_tokenizer(tokenizer: Path, rows: int | None, *, context: BuildContext) -> Path:
    """The file itself; where special tokens lie beyond the table's ``rows``, one without them, kept in the store.

    Such a token in a text is plain text then; transformers fails at it. Raises ``ModelError`` where words, or what is put around each
    text, lie beyond the table.
    """
    if rows is None or (highest := highest_token(opened := open_tokenizer(tokenizer))) < rows:
        return tokenizer
    beyond = _beyond(opened, rows)
    if not beyond:
        raise ModelError(
            f"tokenizer.json has token {highest}, the model's embedding table has {rows} rows",
            hint="tokenizer and weights are of different models",
        )

    def make(folder: Path) -> None:
        document = dict(read_object(tokenizer))
        document["added_tokens"] = [
            each for each in document["added_tokens"] if each["content"] not in beyond
        ]
        (folder / FILE).write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")

    context.note(f"the model has no vector of {', '.join(beyond)}: plain text in its tokenizer")
    inputs = {"rows": str(rows), "by": digest_of_code("models")}
    return context.store.cached("fitting-tokenizer", inputs, make, files={"tokenizer": tokenizer}) / FILE


@panics_reported()
def _beyond(tokenizer: Tokenizer, rows: int) -> tuple[str, ...]:
    """The special tokens past the table; none where others are there, too."""
    words = tokenizer.get_vocab(with_added_tokens=False)
    added = {number: each for number, each in tokenizer.get_added_tokens_decoder().items() if number >= rows}
    framed = (*tokenizer.encode("").ids, *tokenizer.encode("", "").ids)
    if max(*words.values(), *framed) >= rows or not all(each.special for each in added.values()):
        return ()
    return tuple(each.content for each in added.values())
