"""One library as a process that embeds on command, for ``benchmarks/peers.py``; needs nothing of edgepack.

    PYTHON benchmarks/peer.py LIBRARY WORK THREADS

WORK holds the model (fp32.onnx, int8.onnx, model.safetensors, config.json) and texts.json, token ids by name of the set.
A line of standard input is the name of a set and a batch size; the answer is float32 [texts, dimension].
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Ids = list[list[int]]
Embed = Callable[[Ids], Any]


def main() -> None:
    library, work, threads = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    sets: dict[str, Ids] = json.loads((work / "texts.json").read_text())
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr  # What libraries print is no vector.
    embed = LIBRARIES[library](work, threads, sets)
    for line in sys.stdin:
        name, batch = line.split()
        texts, size = sets[name], int(batch)
        found = [embed(texts[at : at + size]) for at in range(0, len(texts), size)]
        vectors = np.concatenate(found)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        answers.write(vectors.astype("<f4").tobytes())
        answers.flush()


def padded(texts: Ids) -> dict[str, Any]:
    """BERT's inputs, int64 [texts, longest]."""
    shape = (len(texts), max(map(len, texts)))
    ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = text
        mask[row, : len(text)] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def onnxruntime(file: str) -> Callable[[Path, int, Any], Embed]:
    def load(work: Path, threads: int, _: Any) -> Embed:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        session = ort.InferenceSession(work / file, options, providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_inputs()]

        def embed(texts: Ids) -> Any:
            feed = padded(texts)
            return session.run(None, {name: feed[name] for name in names})[0]

        return embed

    return load


def openvino(kind: str) -> Callable[[Path, int, dict[str, Ids]], Embed]:
    def load(work: Path, threads: int, sets: dict[str, Ids]) -> Embed:
        import openvino as ov

        core, file = ov.Core(), work / f"{kind}.xml"
        if not file.exists():
            ov.save_model(quantized(core.read_model(work / "fp32.onnx"), kind, sets["calibration"]), file)
        settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
        compiled = core.compile_model(file, "CPU", settings)
        names = [each.get_any_name() for each in compiled.inputs]

        def embed(texts: Ids) -> Any:
            feed = padded(texts)
            return np.array(compiled({name: feed[name] for name in names})[0])

        return embed

    return load


def quantized(model: Any, kind: str, texts: Ids) -> Any:
    import nncf

    if kind == "weights":
        return nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)
    names = [each.get_any_name() for each in model.inputs]
    feeds = [{name: padded([text])[name] for name in names} for text in texts]
    return nncf.quantize(
        model, nncf.Dataset(feeds), model_type=nncf.ModelType.TRANSFORMER, subset_size=len(feeds)
    )


def ctranslate2(work: Path, threads: int, _: Any) -> Embed:
    import ctranslate2 as ct

    folder = work / "ctranslate2"
    if not folder.exists():
        ctranslate2_model(work, folder)
    encoder = ct.Encoder(str(folder), compute_type="int8", intra_threads=threads)

    def embed(texts: Ids) -> Any:
        hidden = np.array(encoder.forward_batch(texts).last_hidden_state)
        mask = padded(texts)["attention_mask"][..., None].astype(np.float32)
        return (hidden * mask).sum(1) / mask.sum(1)

    return embed


def ctranslate2_model(work: Path, folder: Path) -> None:
    """The BERT of model.safetensors with weights of eight bits."""
    from ctranslate2.specs import common_spec, transformer_spec
    from safetensors.numpy import load_file

    config, tensors = json.loads((work / "config.json").read_text()), load_file(work / "model.safetensors")
    encoder = transformer_spec.TransformerEncoderSpec(
        config["num_hidden_layers"],
        config["num_attention_heads"],
        pre_norm=False,
        activation=common_spec.Activation.GELU,
        num_source_embeddings=2,
        embeddings_merge=common_spec.EmbeddingsMerge.ADD,
        layernorm_embedding=True,
    )
    encoder.scale_embeddings = False

    def linear(spec: Any, *names: str) -> None:
        spec.weight = np.concatenate([tensors[f"{name}.weight"] for name in names])
        spec.bias = np.concatenate([tensors[f"{name}.bias"] for name in names])

    def norm(spec: Any, name: str) -> None:
        spec.gamma, spec.beta = tensors[f"{name}.weight"], tensors[f"{name}.bias"]

    encoder.embeddings[0].weight = tensors["embeddings.word_embeddings.weight"]
    encoder.embeddings[1].weight = tensors["embeddings.token_type_embeddings.weight"]
    encoder.position_encodings.encodings = tensors["embeddings.position_embeddings.weight"]
    norm(encoder.layernorm_embedding, "embeddings.LayerNorm")
    for number, layer in enumerate(encoder.layer):
        at = f"encoder.layer.{number}"
        parts = (f"{at}.attention.self.{part}" for part in ("query", "key", "value"))
        linear(layer.self_attention.linear[0], *parts)
        linear(layer.self_attention.linear[1], f"{at}.attention.output.dense")
        norm(layer.self_attention.layer_norm, f"{at}.attention.output.LayerNorm")
        linear(layer.ffn.linear_0, f"{at}.intermediate.dense")
        linear(layer.ffn.linear_1, f"{at}.output.dense")
        norm(layer.ffn.layer_norm, f"{at}.output.LayerNorm")
    spec = transformer_spec.TransformerEncoderModelSpec(encoder)
    spec.config.layer_norm_epsilon = config["layer_norm_eps"]
    spec.config.unk_token = "[UNK]"
    vocabulary = [f"[{number}]" for number in range(config["vocab_size"] - 1)]
    spec.register_vocabulary(["[UNK]", *vocabulary])  # Ids are what it is given: the words are never read.
    spec.validate()
    spec.optimize(quantization="int8")
    folder.mkdir()
    spec.save(str(folder))


def llama_cpp(work: Path, threads: int, _: Any) -> Embed:
    import llama_cpp

    file = work / "model.gguf"
    if not file.exists():
        gguf_model(work, file)
    model = llama_cpp.Llama(
        str(file),
        embedding=True,
        n_ctx=LLAMA_TOKENS,
        n_batch=LLAMA_TOKENS,
        n_ubatch=LLAMA_TOKENS,
        n_threads=threads,
        n_threads_batch=threads,
        verbose=False,
    )
    # Ids are what it is given, as any other library.
    model.tokenize = lambda text, *_: json.loads(text)
    return lambda texts: np.array(model.embed([json.dumps(text) for text in texts]), np.float32)


def gguf_model(work: Path, file: Path) -> None:
    """The BERT of model.safetensors as llama.cpp's own converter writes it, its matrices as Q8_0."""
    from gguf import GGMLQuantizationType, GGUFWriter, PoolingType, quants
    from safetensors.numpy import load_file

    config = json.loads((work / "config.json").read_text())
    writer = GGUFWriter(file, "bert")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(PoolingType.MEAN)
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_type_count(config["type_vocab_size"])
    writer.add_token_list([f"[{number}]" for number in range(config["vocab_size"])])  # never read
    for name, tensor in load_file(work / "model.safetensors").items():
        renamed = gguf_name(name)
        if renamed is None:
            continue
        if tensor.ndim == 2 and not renamed.startswith(("position", "token_types")):
            kind = GGMLQuantizationType.Q8_0
            writer.add_tensor(renamed, quants.quantize(tensor, kind), raw_dtype=kind)
        else:
            writer.add_tensor(renamed, tensor.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_name(name: str) -> str | None:
    """None for what llama.cpp has no use for."""
    part, _, kind = name.rpartition(".")
    if part.startswith("encoder.layer."):
        _, _, number, layer = part.split(".", 3)
        return f"blk.{number}.{GGUF_LAYER[layer]}.{kind}"
    return f"{GGUF_NAMES[part]}.{kind}" if part in GGUF_NAMES else None


GGUF_NAMES = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
}
GGUF_LAYER = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
LLAMA_TOKENS = 8192
"""Of a batch: 32 texts of 256."""

LIBRARIES: dict[str, Callable[[Path, int, Any], Embed]] = {
    "onnxruntime-fp32": onnxruntime("fp32.onnx"),
    "onnxruntime-int8": onnxruntime("int8.onnx"),
    "openvino-static": openvino("static"),
    "openvino-weights": openvino("weights"),
    "ctranslate2-int8": ctranslate2,
    "llama.cpp-q8_0": llama_cpp,
}


if __name__ == "__main__":
    main()
