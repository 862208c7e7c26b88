"""The part of `make gpu-kit` that asks which kernels the architectures launch that edgepack exports itself: `families.tar.xz`.

For each architecture, models of the shapes that the tests use, with weights that repeat themselves and so take no space: a bundle as
`edgepack bundle` makes it, without the libraries, which are those of `kit.tar.xz`; texts, full-precision vectors, and the translation
units that a bundle of its operators keeps. With these, the device makes of `whole.tar.xz` the provider that the bundle would have.
"""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from safetensors.numpy import load_file, save_file
from tests.support.berts import source_of
from tests.support.families import FAMILIES
from tests.support.recorded import Weights, form_of, save_model
from tests.support.tiny import WORDS, tokenizer_document, write_json

from edgepack.bundles.assemble import assemble
from edgepack.errors import BundleError
from edgepack.models.reference import reference_vectors
from edgepack.records.model import ModelSource
from edgepack.records.runtime import RuntimeArtifact
from edgepack_cuda.builder import CudaBuilder
from edgepack_cuda.fatbin import HEADER, MAGIC, NO_CODE
from edgepack_cuda.image import Image, memory_of, read_image
from edgepack_cuda.kernels import kernels_of
from edgepack_cuda.lists import Lists, lists_for
from edgepack_cuda.nvidia import ONNXRUNTIME_GPU
from edgepack_cuda.prune import blobs_of, device_code

PERIOD = 509
"""After so many numbers the weights of a tensor begin anew; a prime, so that no two of its rows are the same."""
WIDE: dict[str, dict[str, Any]] = {
    "bert": {
        "hidden_size": 384,
        "intermediate_size": 1536,
        "max_position_embeddings": 512,
        "num_attention_heads": 12,
        "num_hidden_layers": 1,
    },
    "roberta": {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "layer_norm_eps": 1e-05,
        "max_position_embeddings": 514,
        "num_attention_heads": 12,
        "num_hidden_layers": 1,
        "type_vocab_size": 1,
    },
    "mpnet": {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "layer_norm_eps": 1e-05,
        "max_position_embeddings": 514,
        "num_attention_heads": 12,
        "num_hidden_layers": 1,
    },
    "distilbert": {
        "dim": 768,
        "hidden_dim": 3072,
        "max_position_embeddings": 512,
        "n_heads": 12,
        "n_layers": 1,
    },
    "albert": {
        "embedding_size": 128,
        "hidden_size": 768,
        "intermediate_size": 3072,
        "max_position_embeddings": 512,
        "num_attention_heads": 12,
        "num_hidden_groups": 1,
        "num_hidden_layers": 2,
    },
    "deberta-v2": {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "layer_norm_eps": 1e-07,
        "max_position_embeddings": 512,
        "num_attention_heads": 12,
        "num_hidden_layers": 1,
        "position_buckets": 256,
    },
    "gte": {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "max_position_embeddings": 8192,
        "num_attention_heads": 12,
        "num_hidden_layers": 1,
    },
    "modernbert": {
        "hidden_size": 768,
        "intermediate_size": 1152,
        "local_attention": 128,
        "max_position_embeddings": 8192,
        "num_attention_heads": 12,
        "num_hidden_layers": 2,
    },
    "nomic_bert": {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "max_position_embeddings": 2048,
        "num_attention_heads": 12,
        "num_hidden_layers": 1,
    },
    **{
        kind: {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
        for kind in ("xlm-roberta", "camembert", "new", "llama", "mistral", "qwen2")
    },
    **{
        kind: {"head_dim": 32, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
        for kind in ("qwen3", "gemma3_text")
    },
}
"""Shapes of released models, as far as the tests have them; what an architecture's kernels are depends on its widths."""
SINGLE = ("gemma3_text", "embedding_gemma2_text")
"""Whose activations leave the range of float16."""
FUSED = ("bert", "deberta-v2", "modernbert", "qwen3", "nomic_bert")
"""Of which fused float32 is asked, too."""
UNFUSED = ("bert", "deberta-v2", "modernbert", "qwen3", "gemma3_text", "nomic_bert")
"""Of which float32 as it was exported is asked, too."""
LONGEST = 1500
"""Tokens of the longest text: a row of attention beyond a block of threads."""
TEXTS = 16
LEAST_COSINE = 0.999
"""Of float16 in models with random weights."""
RECORDER = "liblaunched.so"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model, and the recipe that it is asked with."""

    kind: str
    shape: str
    recipe: str = ""
    """The target's own, where nothing is said."""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.kind, self.shape, self.recipe or "half")))


def recipe_of(kind: str) -> str:
    return "fp32" if kind in SINGLE else ""


def cases() -> list[Case]:
    return [
        *(Case(kind=kind, shape="small", recipe=recipe_of(kind)) for kind in FAMILIES),
        *(Case(kind=kind, shape="wide", recipe=recipe_of(kind)) for kind in WIDE),
        *(Case(kind=kind, shape="small", recipe="fp32") for kind in FUSED),
        *(Case(kind=kind, shape="small", recipe="unfused") for kind in UNFUSED),
    ]


def write_source(folder: Path, case: Case) -> ModelSource:
    """A model of the case's shape. Wide ones have calm weights, so that attention is no sharper than in small ones."""
    shape = WIDE[case.kind] if case.shape == "wide" else {}
    width = shape.get("hidden_size", shape.get("dim", 32))
    save_model(folder, form_of(case.kind, shape), Weights(norm=FAMILIES[case.kind].norm))
    tensors = {
        name: repeated(name, tensor, width)
        for name, tensor in load_file(folder / "model.safetensors").items()
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    write_json(folder / "tokenizer.json", tokenizer_document())
    source = source_of(folder)
    positions = source.config["max_position_embeddings"] - 2
    return replace(source, max_length=min(positions, LONGEST))


def repeated(name: str, tensor: np.ndarray[Any, Any], width: int) -> np.ndarray[Any, Any]:
    """The tensor with its first numbers again and again; of matrices smaller ones, the more of them are added up."""
    if tensor.ndim < 2 or tensor.dtype != np.float32:
        return tensor
    scale = np.sqrt(32 / width) if "embed" not in name else 1.0
    return np.resize(tensor.ravel()[:PERIOD] * np.float32(scale), tensor.shape)


def texts_for(source: ModelSource) -> list[str]:
    """Of one word up to as many as the model takes, and one more than that."""
    random = np.random.default_rng(7)
    longest = source.max_length
    lengths = [
        1,
        2,
        3,
        4,
        6,
        8,
        11,
        16,
        23,
        31,
        longest // 4,
        longest // 3,
        longest // 2,
        longest - 9,
        longest - 2,
        longest,
    ]
    words = WORDS[4:]
    return [" ".join(random.choice(words, max(1, length))).replace(" ##", "") for length in lengths[:TEXTS]]


@dataclass(frozen=True, kw_only=True)
class Provider:
    """The provider with all units, and what lies where in it."""

    image: Image
    lists: Lists
    kernels: tuple[tuple[str, ...], ...]
    """Of each unit."""
    units: tuple[tuple[int, int], ...]
    """Place in the file, and bytes."""
    blobs: tuple[tuple[int, int], ...]

    def facts(self) -> dict[str, Any]:
        empty = HEADER.pack(MAGIC, 1, HEADER.size, len(NO_CODE)) + NO_CODE
        return {
            "sha256": hashlib.sha256(self.image.content).hexdigest(),
            "units": self.units,
            "blobs": self.blobs,
            "empty": empty.hex(),
            "no_room": HEADER.pack(MAGIC, 1, HEADER.size, 0).hex(),
        }

    def kept(self, operators: Sequence[str], architectures: Sequence[str], what: object) -> list[int]:
        """What `edgepack bundle` keeps for them."""
        if unknown := self.lists.unknown(operators):
            raise BundleError(f"{what}: the lists do not know {', '.join(unknown)}")
        return sorted(self.lists.units_for(operators, self.kernels, architectures))


def read_provider(file: Path) -> Provider:
    lists = lists_for(ONNXRUNTIME_GPU.version)
    assert lists is not None
    image = read_image(file.read_bytes(), file.name)
    section, code, fatbins = device_code(image, file.name)
    return Provider(
        image=image,
        lists=lists,
        kernels=tuple(kernels_of(code, fatbin) for fatbin in fatbins),
        units=tuple((image.offset_of(section.address + each.offset), each.size) for each in fatbins),
        blobs=tuple((image.offset_of(address), size) for address, size, _ in blobs_of(image)),
    )


def pruned(provider: Provider, kept: Sequence[int]) -> bytearray:
    """As the device makes it: every other unit, and each cubin among the constants, is gone."""
    content = bytearray(provider.image.content)
    facts = provider.facts()
    empty, no_room = bytes.fromhex(facts["empty"]), bytes.fromhex(facts["no_room"])
    for index, (at, size) in enumerate(provider.units):
        if index not in kept:
            filling = empty if len(empty) <= size else no_room
            content[at : at + size] = filling.ljust(size, b"\0")
    for at, size in provider.blobs:
        content[at : at + size] = bytes(size)
    return content


def require_same(provider: Provider, kept: Sequence[int], file: Path) -> None:
    """What the device makes is in memory what `edgepack bundle` made, but for the file's and the program's headers."""
    made, wanted = (
        memory_of(read_image(each, file.name)) for each in (pruned(provider, kept), file.read_bytes())
    )
    differing = np.flatnonzero(
        np.frombuffer(made, np.uint8)[: len(wanted)] != np.frombuffer(wanted, np.uint8)[: len(made)]
    )
    if differing.size and int(differing[-1]) >= 4096:
        raise BundleError(f"{file.name} made from the whole one differs at {int(differing[-1]):#x}")


def compile_recorder(folder: Path) -> Path:
    """What takes down on the device which kernels are launched."""
    made = folder / RECORDER
    source = Path(__file__).with_name("launched.c")
    subprocess.run(
        ["gcc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", made, source, "-ldl"], check=True
    )
    return made


def families(
    runtime: RuntimeArtifact, provider: Provider, folder: Path, builders: dict[str, CudaBuilder]
) -> list[tuple[str, Path]]:
    """Members of the archive: name → file."""
    rows: list[dict[str, Any]] = []
    members: list[tuple[str, Path]] = []
    for number, case in enumerate(cases()):
        source = write_source(folder / f"source-{number}", case)
        maker = builders[case.recipe]
        model = maker.prepare_model(source)
        bundle = folder / f"family-{number}"
        bundle.mkdir()
        assemble(
            target=maker.target,
            model=model,
            runtime=runtime,
            runner=maker.make_runner(model, runtime),
            folder=bundle,
            context=maker.context,
        )
        operators = sorted({node.op_type for node in onnx.load(str(model.file)).graph.node})
        texts = texts_for(source)
        vectors = reference_vectors(source, texts, context=maker.context)
        rows.append(
            {
                "name": str(case),
                "folder": bundle.name,
                "kept": provider.kept(operators, maker.architectures, case),
                "operators": operators,
                "texts": texts,
                "vectors": [[round(float(each), 6) for each in vector] for vector in vectors],
                "least_cosine": LEAST_COSINE,
            }
        )
        files = sorted(path for path in bundle.rglob("*") if path.is_file() and path.parent.name != "lib")
        members += [
            (f"families/{bundle.name}/{path.relative_to(bundle).as_posix()}", path)
            for path in files
            if "LICENSES" not in path.parts
        ]
        shutil.rmtree(bundle / "lib")
        print(f"{case}: {len(rows[-1]['kept'])} units", flush=True)  # noqa: T201
    facts = folder / "families.json"
    facts.write_text(json.dumps({"provider": provider.facts(), "families": rows}))
    recorder = compile_recorder(folder)
    return [("families.json", facts), (RECORDER, recorder), *members]
