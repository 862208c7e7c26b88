"""Unigram models as a table for the web: what the native program's has, with added tokens as JavaScript finds them."""

import json

from tokenizers import Tokenizer

from edgepack.runner.frozen.tokenizer.hugging_face import pad_id_of
from edgepack.runner.tokenizer.added_tokens import word_sections
from edgepack.runner.tokenizer.compile import normalizer_tables, steps_of
from edgepack.runner.tokenizer.sections import pack_sections
from edgepack.runner.tokenizer.template import template_of
from edgepack.runner.tokenizer.unigram import unigram_sections
from edgepack.runner.tokenizer.unsupported import unsupported
from edgepack.runner.tokenizer.wordpiece_table import added_rows


def unigram_table(text: str) -> bytes:
    """The table for a tokenizer.json without truncation and padding.

    Raises ``UnsupportedModelError`` for another model than Unigram, and for components that have no table.
    """
    document = json.loads(text)
    if document["model"].get("type") != "Unigram":
        raise unsupported("model", str(document["model"].get("type")))
    tokenizer = Tokenizer.from_str(text)
    splitter = document.get("pre_tokenizer")
    splits = steps_of(splitter, "pretokenizers") if splitter else []
    return pack_sections(
        {
            **unigram_sections(document, splits, pad_id_of(tokenizer)),
            "added": json.dumps(added_rows(document, tokenizer), ensure_ascii=False).encode(),
            "template": template_of(document.get("post_processor"), tokenizer),
            **word_sections(document),
            **normalizer_tables(document.get("normalizer")),
        }
    )
