"""`edgepack doctor` on others' programs with the real all-MiniLM-L6-v2, and on mistakes that are planted in it.

    python -m venv --system-site-packages peers; peers/bin/pip install fastembed openvino ctranslate2 sentence-transformers gguf
    peers/bin/python benchmarks/doctor.py [PEER]... [--llama-server FILE] [--serve BUNDLE] [--mistakes]

Every peer makes vectors as its own documentation tells a user to, with its own defaults; what is not installed is left out. Servers
are asked over HTTP on the loopback, libraries in this process. A line for each: the verdict, cosines to the full-precision
model, seconds by the clock, and of this process's processor time.
"""

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgepack.console import Story
from edgepack.doctor.endpoint import connected
from edgepack.doctor.examine import Expected, Instruments, diagnose, instruments
from edgepack.doctor.gather import gather
from edgepack.doctor.halves import Vectors
from edgepack.doctor.subject import Subject
from edgepack.doctor.verdict import Diagnosis
from edgepack.models.find.source import ingest
from edgepack.models.ort.session import open_session
from edgepack.models.reference import exported_model, token_batches
from edgepack.plugins.context import HostContext, host_context
from edgepack.records.model import ModelSource
from edgepack.verifier.gate import verification_texts

ROOT = Path(__file__).parents[1]
LENGTHS = {64: 256, 40: 100, 32: 64, 111: 411}


@dataclass(frozen=True, kw_only=True)
class Library:
    """A subject in this process."""

    function: Callable[[list[str]], Any]
    at_once: int = 16

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.asarray(self.function(list(texts)), np.float32)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The model, and a folder for what is made of it."""

    source: ModelSource
    onnx: Path
    folder: Path


def with_onnxruntime(bench: Bench, model: Path) -> Library:
    session = open_session(model)
    names = [each.name for each in session.get_inputs()]

    def embed(texts: list[str]) -> Any:
        (feed,) = token_batches(bench.source, texts, len(texts))
        return session.run(None, {name: feed[name] for name in names})[0]

    return Library(function=embed)


def onnxruntime_fp32(bench: Bench) -> Library:
    return with_onnxruntime(bench, bench.onnx)


def onnxruntime_dynamic(bench: Bench, **options: Any) -> Library:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    made = bench.folder / "dynamic.onnx"
    quantize_dynamic(bench.onnx, made, weight_type=QuantType.QInt8, **options)
    return with_onnxruntime(bench, made)


def onnxruntime_int4(bench: Bench) -> Library:
    import onnx
    from onnxruntime.quantization.matmul_4bits_quantizer import MatMul4BitsQuantizer

    quantizer = MatMul4BitsQuantizer(onnx.load(bench.onnx), block_size=32, is_symmetric=True)
    quantizer.process()
    made = bench.folder / "int4.onnx"
    quantizer.model.save_model_to_file(str(made))
    return with_onnxruntime(bench, made)


def sentence_transformers(bench: Bench, kind: str = "float32") -> Library:
    import torch
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(
        str(bench.source.directory), device="cpu", model_kwargs={"dtype": getattr(torch, kind)}
    )
    return Library(function=lambda texts: model.encode(texts, convert_to_numpy=True))


def transformers_by_hand(bench: Bench) -> Library:
    """As the model's card says it is done without sentence-transformers."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = str(bench.source.directory)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)

    def embed(texts: list[str]) -> Any:
        given = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        with torch.no_grad():
            hidden = model(**given).last_hidden_state
        mask = given["attention_mask"][..., None].float()
        return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1).numpy()

    return Library(function=embed)


def fastembed(bench: Bench) -> Library:
    import onnx
    from fastembed import TextEmbedding

    folder = bench.folder / "fastembed"
    folder.mkdir()
    for file in bench.source.directory.iterdir():
        if file.suffix == ".json":
            (folder / file.name).write_bytes(file.read_bytes())
    special = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    (folder / "special_tokens_map.json").write_text(json.dumps(special))
    model = onnx.load(bench.onnx)
    node = next(node for node in model.graph.node if node.name == "pool_sum_row")
    hidden = onnx.helper.make_tensor_value_info("last_hidden_state", onnx.TensorProto.FLOAT, None)
    model.graph.node.append(onnx.helper.make_node("Identity", [node.input[1]], ["last_hidden_state"]))
    model.graph.output.pop()
    model.graph.output.append(hidden)
    onnx.save(model, folder / "model.onnx")
    peer = TextEmbedding("sentence-transformers/all-MiniLM-L6-v2", specific_model_path=str(folder))
    return Library(function=lambda texts: list(peer.embed(texts)))


def openvino(bench: Bench, *, half: bool = False) -> Library:
    import openvino as ov

    core = ov.Core()
    model = core.read_model(bench.onnx)
    if half:
        ov.save_model(model, bench.folder / "half.xml", compress_to_fp16=True)
        model = core.read_model(bench.folder / "half.xml")
    compiled = core.compile_model(model, "CPU")
    names = [each.get_any_name() for each in compiled.inputs]

    def embed(texts: list[str]) -> Any:
        (feed,) = token_batches(bench.source, texts, len(texts))
        return compiled({name: feed[name] for name in names})[0]

    return Library(function=embed)


def ctranslate2(bench: Bench, quantization: str) -> Library:
    import ctranslate2 as ct
    import torch

    target = bench.folder / f"ctranslate2-{quantization}"
    ct.converters.TransformersConverter(str(bench.source.directory)).convert(
        str(target), quantization=quantization
    )
    encoder = ct.Encoder(str(target), compute_type=quantization)

    def embed(texts: list[str]) -> Any:
        (feed,) = token_batches(bench.source, texts, len(texts))
        counts = feed["attention_mask"].sum(1)
        ids = [row[:count].tolist() for row, count in zip(feed["input_ids"], counts, strict=True)]
        hidden = torch.as_tensor(np.array(encoder.forward_batch(ids).last_hidden_state))
        mask = torch.as_tensor(feed["attention_mask"])[..., None].float()
        return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1).numpy()

    return Library(function=embed)


def gguf_file(bench: Bench, kind: str) -> Path:
    """The model as llama.cpp reads it: what its own converter writes of a BERT."""
    import gguf

    from edgepack.models.read.safetensors import open_tensors

    config, tensors = bench.source.config, open_tensors(bench.source.directory / "model.safetensors")
    document = json.loads(bench.source.tokenizer.read_text())
    vocabulary = sorted(document["model"]["vocab"], key=document["model"]["vocab"].__getitem__)
    special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    made = bench.folder / f"{kind}.gguf"
    writer = gguf.GGUFWriter(made, "bert")
    writer.add_name(bench.source.name)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0 if kind == "q8_0" else gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_type_count(2)
    # A word's beginning is marked, its continuation is not: the other way round than in WordPiece.
    marked = [
        word
        if word in special or (word.startswith("[unused"))
        else word[2:]
        if word.startswith("##")
        else f"▁{word}"
        for word in vocabulary
    ]
    writer.add_token_list(marked)
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_token_types([control if word in special else normal for word in vocabulary])
    for name, word in {
        "bos": "[CLS]",
        "eos": "[SEP]",
        "sep": "[SEP]",
        "pad": "[PAD]",
        "mask": "[MASK]",
        "unk": "[UNK]",
    }.items():
        getattr(writer, f"add_{name}_token_id")(vocabulary.index(word))
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, config["num_hidden_layers"])
    for name, tensor in tensors.tensors.items():
        if "pooler" in name or name.endswith("position_ids"):
            continue
        array = tensors.read(name, tensor.shape)
        if name.endswith("token_type_embeddings.weight"):
            array = array[:2]
        known = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if kind == "q8_0" and array.ndim == 2 and "blk" in known:
            packed = gguf.quants.quantize(array, gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor(known, packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        else:
            writer.add_tensor(known, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return made


@contextmanager
def running(command: Sequence[str | Path], path: str) -> Iterator[str]:
    """A server on a free port, once it answers there; its address."""
    import httpx

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [str(word).replace("PORT", str(port)) for word in command]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(240):
                try:
                    if httpx.get(f"http://127.0.0.1:{port}{path}", trust_env=False).status_code == 200:
                        break
                except httpx.HTTPError:
                    pass
                time.sleep(0.25)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Examines one after the other, and prints a line of Markdown for each."""

    tools: Instruments
    expected: Expected

    def examine(self, name: str, subject: Subject, **meant: Any) -> Diagnosis:
        started, used = time.monotonic(), time.process_time()
        expected = replace(self.expected, **meant)
        source = self.tools.source
        gathered = gather(subject, verification_texts(), source.prompts, expected.length, self.tools.reader)
        made = diagnose(gathered, expected, self.tools, subject=name)
        cosines = made.cosines
        shown = f"{cosines.mean:.5f} | {cosines.least:.4f}" if cosines else "|"
        said = "; ".join([*(each.found for each in made.findings), *(f"({note})" for note in made.notes)])
        seconds = time.monotonic() - started
        sys.stdout.write(
            f"| {name} | `{made.verdict}` | {shown} | {said} | {seconds:.1f} | {time.process_time() - used:.1f} |\n"
        )
        sys.stdout.flush()
        return made


LIBRARIES: dict[str, Callable[[Bench], Library]] = {
    "onnxruntime": onnxruntime_fp32,
    "onnxruntime int8 dynamic": onnxruntime_dynamic,
    "onnxruntime int8 dynamic, per channel": lambda bench: onnxruntime_dynamic(bench, per_channel=True),
    "onnxruntime int4": onnxruntime_int4,
    "sentence-transformers": sentence_transformers,
    "sentence-transformers bfloat16": lambda bench: sentence_transformers(bench, "bfloat16"),
    "sentence-transformers float16": lambda bench: sentence_transformers(bench, "float16"),
    "transformers, as the model's card says": transformers_by_hand,
    "fastembed": fastembed,
    "openvino": openvino,
    "openvino, weights float16": lambda bench: openvino(bench, half=True),
    "ctranslate2": lambda bench: ctranslate2(bench, "float32"),
    "ctranslate2 int8": lambda bench: ctranslate2(bench, "int8"),
}


def examine_servers(doctor: Doctor, bench: Bench, llama: str | None, bundle: Path | None) -> None:
    commands: dict[str, tuple[list[str | Path], str]] = {}
    if llama:
        for kind in ("f32", "q8_0"):
            options: list[str | Path] = [
                "-m",
                gguf_file(bench, kind),
                "--embeddings",
                "--pooling",
                "mean",
                "--port",
                "PORT",
            ]
            commands[f"llama.cpp {kind}"] = ([*llama.split(), *options], "/health")
    if bundle:
        commands[f"{bundle.name}: embed serve"] = ([bundle / "embed", "serve", "--port", "PORT"], "/health")
    for name, (command, path) in commands.items():
        with (
            running(command, path) as url,
            connected(url, model=None, headers={}, dimensions=None) as endpoint,
        ):
            doctor.examine(name, endpoint)


def examine_mistakes(doctor: Doctor, bench: Bench) -> None:
    sys.path.insert(0, str(ROOT))
    from tests.support.planted import Emulated
    from tests.unit.doctor.judge_planted import MISTAKES
    from transformers import AutoModel

    model = AutoModel.from_pretrained(str(bench.source.directory), attn_implementation="eager").eval()
    right = 0
    for name, (verdict, does, meant) in MISTAKES.items():
        # What is 16 of 32 numbers, and 40 or 111 of 64 tokens, in the small models.
        does = replace(
            does,
            dimension={32: 384, 16: 192}[does.dimension],
            length=LENGTHS[does.length],
            to=LENGTHS.get(does.to, 0),
        )
        meant = (
            {"length": 100}
            if meant == {"length": 40}
            else {"dimension": 192}
            if "dimension" in meant
            else meant
        )
        made = doctor.examine(name, Emulated(folder=bench.source.directory, model=model, does=does), **meant)
        right += made.verdict == verdict
    sys.stdout.write(f"\n{right} of {len(MISTAKES)} named as they were planted\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("peers", nargs="*", help="these alone")
    parser.add_argument("--llama-server", metavar="COMMAND", help="llama.cpp's server")
    parser.add_argument("--serve", type=Path, metavar="BUNDLE", help="a bundle whose program has `serve`")
    parser.add_argument("--mistakes", action="store_true", help="plant mistakes in the real model, too")
    options = parser.parse_args()
    sys.stdout.write(
        "| | verdict | mean cosine | least | said | s | CPU s |\n|---|---|---|---|---|---|---|\n"
    )
    with host_context(story=Story(quiet=True)) as context, tempfile.TemporaryDirectory() as folder:
        run(context, Path(folder), options)


def run(context: HostContext, folder: Path, options: argparse.Namespace) -> None:
    source = ingest(None, context=context)
    bench = Bench(source=source, onnx=exported_model(source, context=context), folder=folder)
    expected = Expected(length=source.max_length, dimension=source.dimension, min_cosine=0.98)
    doctor = Doctor(tools=instruments(source, context=context), expected=expected)
    for name, make in LIBRARIES.items():
        if options.peers and not any(each in name for each in options.peers):
            continue
        try:
            subject = make(bench)
        except ImportError as missing:
            sys.stdout.write(f"| {name} | not installed: {missing} |\n")
            continue
        doctor.examine(name, subject)
    examine_servers(doctor, bench, options.llama_server, options.serve)
    if options.mistakes:
        examine_mistakes(doctor, bench)


if __name__ == "__main__":
    main()
