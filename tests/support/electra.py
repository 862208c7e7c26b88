"""The architecture that docs/plugins.md shows, as a plugin, and models of it with random weights."""

import re
from pathlib import Path
from typing import Any

from tests.support.golden import ROOT
from tests.support.recorded import Weights, form_of, save_model
from tests.support.tiny import MODULES, write_json
from tests.support.word_piece import word_piece

(PLUGIN,) = re.findall(
    r"```python\n(\"\"\"Electra: .*?)```", (ROOT / "docs/plugins.md").read_text(), re.DOTALL
)


def install_electra(folder: Path, *changes: tuple[str, str]) -> None:
    """Lay the plugin into a folder of Python's path, with changes to its code."""
    code = PLUGIN
    for old, new in changes:
        assert old in code, old
        code = code.replace(old, new)
    (folder / "edgepack_electra.py").write_text(code)
    info = folder / "edgepack_electra-1.2.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: edgepack-electra\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[edgepack]\nelectra = edgepack_electra\n")


def write_electra(folder: Path, **shape: Any) -> Path:
    """A model folder with random weights, as sentence-transformers writes it."""
    tokenizer = word_piece()
    words = max(tokenizer.get_vocab().values()) + 1
    save_model(folder, form_of("electra", {**shape, "vocab_size": words}), Weights(seed=4))
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(
        folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]"}
    )
    write_json(folder / "modules.json", MODULES)
    write_json(
        folder / "1_Pooling" / "config.json",
        {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True},
    )
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 32})
    return folder
