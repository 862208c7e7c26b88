"""The architecture that docs/plugins.md shows, as a plugin, and models of it with random weights."""

import re
from pathlib import Path
from typing import Any

import torch
import transformers

from tests.support.golden import ROOT
from tests.support.planted import word_piece
from tests.support.tiny import MODULES, write_json

(PLUGIN,) = re.findall(
    r"```python\n(\"\"\"Electra: .*?)```", (ROOT / "docs/plugins.md").read_text(), re.DOTALL
)
SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "embedding_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
}


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
    torch.manual_seed(4)
    config = transformers.ElectraConfig(
        **{**SMALL, **shape, "vocab_size": max(tokenizer.get_vocab().values()) + 1}
    )
    model: Any = transformers.ElectraModel(config)
    model.eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(mean=1.0 if name.endswith("LayerNorm.weight") else 0.0, std=0.3)
    model.save_pretrained(folder)
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
