"""Models of full size with their true vocabulary and random weights, made small: cosine to full precision, bytes, seconds, memory.

    PYTHONPATH=. python benchmarks/true_shapes.py embeddinggemma                            # by int8
    PYTHONPATH=. python benchmarks/true_shapes.py embeddinggemma --recipe int4-int8 --recipe few-values
    PYTHONPATH=. python benchmarks/true_shapes.py nomic-v2-moe --work FOLDER                # a checkpoint in FOLDER is taken again
    PYTHONPATH=. python benchmarks/true_shapes.py bert mpnet qwen3 --recipe int8-compact    # families: two layers in full width

The weights are calm, as those of trained models are: each part of a layer adds an eighth of what it is given, so that small errors stay small.
Nothing in them can be predicted, which is the hardest case for few bits. 25 of the gate's texts, each run by itself in full precision and by
the recipe. Each step is a process of its own; its peak is what was resident at most, mapped files included. ``archive`` is the model's
file and the compiled tokenizer as a bundle's archive has them; its program and documents are another half megabyte.
"""

import argparse
import json
import math
import multiprocessing
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from safetensors.torch import save_file
from tests.support.experts import CONFIG, expert_shapes
from tests.support.families import family_of
from tests.support.judges import save_family
from tests.support.tiny import write_json
from tests.support.vocabularies import GEMMA3, npm_vocabulary, tokenlearn_model

from edgepack.console import Story
from edgepack.files.frames import frame
from edgepack.files.store import Store
from edgepack.models.find.source import ingest
from edgepack.models.reference import Vectors, embed_with_onnxruntime, exported_model
from edgepack.plugins.context import HostContext, host_context
from edgepack.recipes.prepare import prepare_model
from edgepack.records.target import ModelOptions, Pass
from edgepack.runner.tokenizer.compile import compiled_tokenizer
from edgepack.tables import Number, add_row, table
from edgepack.verifier.gate import verification_texts

SHARE = 1 / 8
"""Of what a part of a layer is given: what it adds."""
TEXTS = 25
OWN: dict[str, tuple[Pass, ...]] = {
    "few-values": (
        Pass(name="fuse", parameters={"attention": "MultiHeadAttention", "embeddings": False}),
        Pass(name="smooth"),
        Pass(name="int8-dynamic", parameters={"steps": 9, "table_steps": 6, "rarity": 0.15}),
    )
}
"""Recipes beside edgepack's: int8 of so few distinct values that EmbeddingGemma takes 165 MB (docs/models.md)."""
ROPE = {
    "full_attention": {"rope_type": "default", "rope_theta": 1_000_000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
}
KINDS = ["sliding_attention"] * 5 + ["full_attention"]
GEMMA: dict[str, Any] = {
    "vocab_size": 262_144,
    "hidden_size": 768,
    "intermediate_size": 1152,
    "num_hidden_layers": 24,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "query_pre_attn_scalar": 256,
    "max_position_embeddings": 2048,
    "sliding_window": 512,
    "use_bidirectional_attention": True,
    "layer_types": KINDS * 4,
    "rope_parameters": ROPE,
}
GEMMA2: dict[str, Any] = {"max_position_embeddings": 2048, "layer_types": KINDS * 4, "rope_parameters": ROPE}
"""The rest is what transformers takes for it by itself."""
MOE: dict[str, Any] = {
    **CONFIG,
    "vocab_size": 250_048,
    "n_embd": 768,
    "hidden_size": 768,
    "n_head": 12,
    "n_inner": 3072,
    "n_layer": 12,
    "n_positions": 2048,
    "num_experts": 8,
}

BASE: dict[str, Any] = {
    "vocab_size": 30_522,
    "hidden_size": 768,
    "num_hidden_layers": 2,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 514,
}
GATED: dict[str, Any] = {**BASE, "num_key_value_heads": 4, "head_dim": 64}
FULL: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("bert", "mpnet", "xlm-roberta", "gte", "nomic_bert"), BASE),
    "albert": {**BASE, "embedding_size": 128, "num_hidden_groups": 1},
    "deberta-v2": {**BASE, "position_buckets": 256},
    "distilbert": {
        "vocab_size": 30_522,
        "dim": 768,
        "n_layers": 2,
        "n_heads": 12,
        "hidden_dim": 3072,
        "max_position_embeddings": 512,
    },
    "modernbert": {**BASE, "intermediate_size": 1152, "local_attention": 128},
    "qwen3": {**GATED, "max_window_layers": 2, "sliding_window": 512},
    "llama": GATED,
}
"""Families → two layers as wide as those of their base models."""
ADDED = {
    **dict.fromkeys(
        ("attention.output.dense.weight", "attn.o.weight", "out_lin.weight", "attention.dense.weight"), 1.0
    ),
    **dict.fromkeys(("attn.Wo.weight", "o_proj.weight"), 1.0),
    **dict.fromkeys(
        ("output.dense.weight", "lin2.weight", "ffn_output.weight", "mlp.Wo.weight", "down_proj.weight"), 1.5
    ),
}
"""Matrices whose product is added to what the layer was given → how much larger, for what they take is smaller."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What a step gave, and what it took."""

    value: Any
    seconds: float
    peak: float
    """Gigabytes."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", choices=MODELS, metavar="NAME", help=", ".join(MODELS))
    parser.add_argument("--recipe", action="append", help="int8 by default")
    parser.add_argument("--work", type=Path, help="keeps what is made; otherwise it is deleted")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        measured = [
            row
            for name in asked.names
            for row in compared(name, asked.recipe or ["int8"], (asked.work or Path(temporary)) / name)
        ]
    made = table(
        "model",
        "recipe",
        *map(
            Number,
            ("million parameters", "cosine: mean, lowest", "of two texts", "archive, bytes", "time, memory"),
        ),
    )
    for each in measured:
        add_row(made, *each)
    Console(width=160).print(made)


def compared(name: str, recipes: Sequence[str], work: Path) -> Iterator[tuple[str, ...]]:
    """A model by each recipe, one row each; the model's folder stays."""
    written = step(write, name, work)
    exported = step(export, work)
    exact = step(embed, work, None).value
    apart = (exact @ exact.T)[np.triu_indices(len(exact), 1)].mean()
    told_of = (f"{written.value / 1e6:.1f}", f"{apart:.2f}")
    sys.stderr.write(f"{name}: {told_of[0]} million parameters; in full precision {told(exported)}\n")
    for recipe in recipes:
        made = step(prepare, work, recipe)
        archive = step(weigh, work, Path(made.value)).value
        cosines = (exact * step(embed, work, Path(made.value)).value).sum(axis=1)
        near = f"{cosines.mean():.4f}, {cosines.min():.4f}"
        sys.stderr.write(f"{name} {recipe}: {near}; {archive:,} bytes, {told(made)}\n")
        yield name, recipe, told_of[0], near, told_of[1], f"{archive:,}", told(made)


def told(taken: Taken) -> str:
    return f"{taken.seconds:.0f} s, {taken.peak:.1f} GB"


def step(work: Callable[..., Any], *given: Any) -> Taken:
    """Run it in a process of its own, so that its memory is its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_timed, work, *given).result()


def _timed(work: Callable[..., Any], *given: Any) -> Taken:
    started = time.perf_counter()
    value = work(*given)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return Taken(value=value, seconds=time.perf_counter() - started, peak=peak * 1.024)


def context_of(work: Path) -> Any:
    return host_context(story=Story(), store=Store(root=work / "store"))


def write(name: str, work: Path) -> int:
    """The checkpoint, unless it is there; its parameters."""
    folder = work / name
    work.mkdir(parents=True, exist_ok=True)
    (work / "model").unlink(missing_ok=True)
    (work / "model").symlink_to(name)
    if not (folder / "parameters").is_file():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        torch.manual_seed(1)
        with context_of(work) as context:
            (folder / "parameters").write_text(str(MODELS[name](folder, context)))
    return int((folder / "parameters").read_text())


def export(work: Path) -> None:
    with context_of(work) as context:
        exported_model(ingest(str(work / "model"), context=context), context=context)


def prepare(work: Path, recipe: str) -> str:
    with context_of(work) as context, context.story.step("prepare"):
        source = ingest(str(work / "model"), context=context)
        options = ModelOptions(recipe=OWN.get(recipe, recipe))
        return str(prepare_model(source, options=options, context=context).file)


def weigh(work: Path, model: Path) -> int:
    """Bytes of the model and the tokenizer in an archive."""
    with context_of(work) as context:
        source = ingest(str(work / "model"), context=context)
        table = compiled_tokenizer(source.tokenizer.read_text(encoding="utf-8"), context=context)
        frames = [frame(file, store=context.store) for file in (model, table)]
        return sum(each.stat().st_size for each in frames)


def embed(work: Path, model: Path | None) -> Vectors:
    """Vectors by a prepared model, or in full precision."""
    with context_of(work) as context:
        source = ingest(str(work / "model"), context=context)
        every = verification_texts()
        texts = every[:: len(every) // TEXTS][:TEXTS]
        return embed_with_onnxruntime(model or exported_model(source, context=context), source, texts)


def write_gemma(folder: Path, context: HostContext) -> int:
    """The norms behind each half say how much of it is added; half by half there is more to add to."""
    halves = iter(range(2 * GEMMA["num_hidden_layers"]))

    def fill(name: str, weight: Any) -> None:
        if name.endswith("norm.weight"):
            after = name.endswith(("post_attention_layernorm.weight", "post_feedforward_layernorm.weight"))
            weight.normal_(mean=grown(next(halves)) - 1 if after else 0.0, std=0.1 * (SHARE if after else 1))
        else:
            weight.normal_(std=weight.shape[1] ** -0.5)

    count = counted(save_family(folder, "gemma3_text", fill, GEMMA))
    shutil.copyfile(npm_vocabulary(GEMMA3), folder / "tokenizer.json")
    return count + write_modules(folder, tuple(GEMMA["hidden_size"] * times for times in (1, 4, 1)))


def write_gemma2(folder: Path, context: HostContext) -> int:
    """Three parts of a layer add something, and the norms of heads scale the scores."""
    parts = iter(range(3 * len(GEMMA2["layer_types"])))

    def fill(name: str, weight: Any) -> None:
        if name.endswith((".q_norm.weight", ".k_norm.weight")):
            weight.fill_(len(weight) ** -0.25)
        elif name.endswith("norm.weight"):
            after = ".post_" in name
            weight.normal_(mean=grown(next(parts)) if after else 1.0, std=0.1 * (SHARE if after else 1))
        else:
            weight.normal_(std=weight.shape[1] ** -0.5)

    count = counted(save_family(folder, "embedding_gemma2_text", fill, GEMMA2))
    shutil.copyfile(npm_vocabulary(GEMMA3), folder / "tokenizer.json")
    return count + write_modules(folder, ())


def write_moe(folder: Path, context: HostContext) -> int:
    """What is added is normalised with what it is added to, so each part is as large as that. XLM-R's vocabulary is nearly tokenlearn's."""
    size: Mapping[str, float] = {
        "token_type_embeddings.weight": MOE["n_embd"] ** -0.5,
        "attn.out_proj.weight": MOE["n_embd"] ** -0.5,
        "mlp.fc2.weight": 1.5 * MOE["n_inner"] ** -0.5,
        "mlp.experts.mlp.w2": 4 * MOE["n_inner"] ** -0.5,
    }
    tensors = {}
    for name, shape in expert_shapes(MOE).items():
        share = next((SHARE * each for end, each in size.items() if name.endswith(end)), None)
        is_norm = len(shape) == 1 and name.endswith(".weight")
        scale = 0.02 if len(shape) == 1 else share or shape[1] ** -0.5
        tensors[name] = torch.randn(shape) * scale + (1 if is_norm else 0)
    save_file(tensors, folder / "model.safetensors")
    write_json(folder / "config.json", MOE)
    document = json.loads((tokenlearn_model(context) / "tokenizer.json").read_text(encoding="utf-8"))
    document["model"]["vocab"] = document["model"]["vocab"][: MOE["vocab_size"]]
    write_json(folder / "tokenizer.json", document)
    count: int = sum(each.numel() for each in tensors.values()) + write_modules(folder, ())
    return count


def write_family(kind: str, folder: Path, context: HostContext, *, document: Any = None, **shape: Any) -> int:
    """Two layers, unless ``shape`` says how many, of a family in full width; all-MiniLM-L6-v2's tokenizer."""
    document = document or json.loads(ingest(None, context=context).tokenizer.read_text(encoding="utf-8"))

    def fill(name: str, weight: Any) -> None:
        if weight.ndim == 1:
            is_norm = name.endswith("weight")
            weight.normal_(mean=family_of(kind).norm * is_norm, std=0.1 if is_norm else 0.02)
        else:
            share = next((SHARE * each for end, each in ADDED.items() if name.endswith(end)), 1.0)
            weight.normal_(std=share * weight.shape[1] ** -0.5)

    count = counted(save_family(folder, kind, fill, {**FULL[kind], **shape}))
    write_json(folder / "tokenizer.json", {**document, "padding": None, "truncation": None})
    return count + write_modules(folder, ())


def write_multilingual(folder: Path, context: HostContext) -> int:
    """Twelve layers of 384 below a table of 250,037 rows, as multilingual-e5-small has them; XLM-R's vocabulary is nearly tokenlearn's."""
    document = json.loads((tokenlearn_model(context) / "tokenizer.json").read_text(encoding="utf-8"))
    document["model"]["vocab"] = document["model"]["vocab"][:250_037]
    shape = {"vocab_size": 250_037, "hidden_size": 384, "num_hidden_layers": 12, "intermediate_size": 1536}
    return write_family("bert", folder, context, document=document, **shape)


def grown(part: int) -> float:
    """An eighth of what a part is given: vectors of size 1, and what the parts before it have added."""
    return SHARE * math.sqrt((1 + SHARE**2) ** part)


def counted(model: Any) -> int:
    return sum(each.numel() for each in model.parameters())


def write_modules(folder: Path, widths: tuple[int, ...]) -> int:
    """Mean pooling, Dense modules from each width to the next, and Normalize; the parameters of these."""
    kinds = ["Transformer", "Pooling", *["Dense"] * (len(widths) - 1), "Normalize"]
    paths = [f"{at}_{kind}" * bool(at) for at, kind in enumerate(kinds)]
    modules = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (path, kind) in enumerate(zip(paths, kinds, strict=True))
    ]
    write_json(folder / "modules.json", modules)
    (folder / "1_Pooling").mkdir()
    write_json(folder / "1_Pooling/config.json", {"pooling_mode_mean_tokens": True})
    for path, inputs, outputs in zip(paths[2:], widths, widths[1:], strict=False):
        (folder / path).mkdir()
        said = {"in_features": inputs, "out_features": outputs, "bias": False}
        write_json(
            folder / path / "config.json",
            {**said, "activation_function": "torch.nn.modules.linear.Identity"},
        )
        weight = torch.randn(outputs, inputs) * inputs**-0.5
        save_file({"linear.weight": weight}, folder / path / "model.safetensors")
    return int(np.dot(widths[1:], widths[:-1]))


MODELS: dict[str, Callable[[Path, HostContext], int]] = {
    "embeddinggemma": write_gemma,
    "embeddinggemma2": write_gemma2,
    "nomic-v2-moe": write_moe,
    **{kind: partial(write_family, kind) for kind in FULL},
    "multilingual-e5-small": write_multilingual,
}

if __name__ == "__main__":
    main()
