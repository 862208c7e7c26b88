"""Files of today's exporters for every architecture: what edgepack makes of them, beside the newest ONNX Runtime.

    python benchmarks/exporters.py                          # the table in docs/models.md: half an hour
    python benchmarks/exporters.py --kinds bert llama --folder /tmp/files     # some; files that are there already are not written again
    python benchmarks/exporters.py --sizes                  # int8 of MiniLM's and ModernBERT's shape, by torch.onnx and by edgepack

Models are small and have random weights. A number is 1 minus the lowest cosine between the vectors that edgepack's graph gives, fused
and in a padded batch, and those of the newest ONNX Runtime for the file as it came, every text alone. Needs PyTorch and the network:
pip fetches the newest onnx and ONNX Runtime, Optimum and the transformers that it takes into the user's cache (200 MB).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.berts import Tokens, onnx_vectors, source_of  # noqa: E402
from tests.support.families import FAMILIES, tokens_of, write_family  # noqa: E402
from tests.support.installed import export_onnx, installed  # noqa: E402
from tests.support.newest import fetched, judged, with_newest  # noqa: E402

from edgepack.models.fuse.fusion import fuse  # noqa: E402
from edgepack.recipes.prepare import prepare_model  # noqa: E402
from edgepack.records.model import ModelSource  # noqa: E402
from edgepack.records.target import ModelOptions  # noqa: E402

HOWS = {
    "dynamo": "torch.onnx (opset 20)",
    "dynamo23": "torch.onnx, opset 23",
    "script": "torch.onnx, `dynamo=False`",
    "optimum": "Optimum",
}
OPTIMUM = (
    "optimum==2.3.0",
    "optimum-onnx==0.1.0",
    "transformers==4.57.6",
    "huggingface_hub==0.36.2",
    "tokenizers==0.22.2",
)
SIZES = {
    "bert": {"vocab_size": 30522, "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12}
    | {"intermediate_size": 1536, "max_position_embeddings": 512},
    "modernbert": {"vocab_size": 50368, "hidden_size": 768, "num_hidden_layers": 6, "num_attention_heads": 12}
    | {"intermediate_size": 1152, "max_position_embeddings": 8192, "local_attention": 128},
}
WRITE = """
import json, pathlib, shutil, sys
from optimum.exporters.onnx import main_export
model, file = map(pathlib.Path, sys.argv[1:3])
work = file.parent / "optimum"
shutil.rmtree(work, ignore_errors=True)
shutil.copytree(model, work / "model")
config = json.loads((work / "model/config.json").read_text())
said = config.get("rope_parameters") or {}
if "rope_theta" in said:  # as transformers 4 reads it
    config["rope_theta"] = said["rope_theta"]
if "full_attention" in said:
    config["rope_theta"] = config["global_rope_theta"] = said["full_attention"]["rope_theta"]
    config["rope_local_base_freq"] = config["local_rope_theta"] = said["sliding_attention"]["rope_theta"]
(work / "model/config.json").write_text(json.dumps(config))
(work / "model/tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
main_export(str(work / "model"), work / "out", task="feature-extraction", library_name="transformers", do_validation=False)
(work / "out/model.onnx").rename(file)
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kinds", nargs="+", default=sorted(FAMILIES), choices=sorted(FAMILIES))
    parser.add_argument("--folder", type=Path, help="where files lie and are written")
    parser.add_argument("--sizes", action="store_true")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="exporters-"))
    if options.sizes:
        compare_sizes(folder)
        return
    say(row("`model_type`", *HOWS.values()))
    say(row(*["---"] * (1 + len(HOWS))))
    for kind in options.kinds:
        say(row(f"`{kind}`", *(cell(folder / kind, kind, how) for how in HOWS)))


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def cell(folder: Path, kind: str, how: str) -> str:
    file = folder / f"{how}.onnx"
    try:
        write(folder, kind, file, how)
    except (AssertionError, subprocess.CalledProcessError):
        return "not written"
    source = placed(folder, file)
    tokens = tokens_of(kind)
    tokens = replace(tokens, types=np.zeros_like(tokens.types))
    fused = fuse(
        onnx.load(export_onnx(source, folder / "taken.onnx")),
        say,
        attention="MultiHeadAttention",
        embeddings=False,
    )
    ours, theirs = onnx_vectors(fused.SerializeToString(), tokens), judged_alone(file, tokens, folder)
    cosines = (ours * theirs).sum(axis=1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    return f"{max(0.0, 1 - float(cosines.min())):.0e}"


def write(folder: Path, kind: str, file: Path, how: str, **shape: Any) -> None:
    model = folder / "model"
    if not model.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_family(model, kind, **shape)
    if file.exists():
        return
    if how == "optimum":
        env = {**os.environ, "PYTHONPATH": str(fetched("optimum", OPTIMUM))}
        subprocess.run([sys.executable, "-c", WRITE, model, file], env=env, check=True, capture_output=True)
    else:
        arguments = [str(model), FAMILIES[kind].model, str(file), how]
        with_newest(["-m", "tests.support.exporters", *arguments])


def placed(folder: Path, file: Path) -> ModelSource:
    """The file beside config.json and tokenizer.json, as people keep it."""
    for each in folder.glob(f"{file.name}*"):
        shutil.copyfile(each, folder / "model" / each.name)
    return source_of(folder / "model", onnx=file.name)


def judged_alone(file: Path, tokens: Tokens, folder: Path) -> np.ndarray:
    feeds = [
        {
            "input_ids": ids[None, :length],
            "attention_mask": mask[None, :length],
            "token_type_ids": mask[None, :length] * 0,
            "position_ids": np.arange(length)[None],
        }
        for ids, mask, length in zip(tokens.ids, tokens.mask, tokens.mask.sum(axis=1), strict=True)
    ]
    return np.stack([each[0].mean(axis=0) for each in judged(file, feeds, folder)])


def compare_sizes(folder: Path) -> None:
    for kind, shape in SIZES.items():
        place = folder / f"{kind}-sizes"
        file = place / "dynamo.onnx"
        write(place, kind, file, "dynamo", **shape)
        sizes = []
        with installed() as context:
            for source in (source_of(place / "model"), placed(place, file)):
                made = prepare_model(source, options=ModelOptions(recipe="int8"), context=context)
                sizes.append(made.file.stat().st_size)
        own, theirs = sizes
        say(f"{kind}: int8 {own:,} bytes by edgepack, {theirs:,} by torch.onnx ({theirs / own - 1:+.2%})")


if __name__ == "__main__":
    main()
