"""Bytes of a download against STSBenchmark: recipes beside ggml's block formats and transformers.js's files, of the same model.

    python benchmarks/frontier.py                          # needs gguf from PyPI beside edgepack
    python benchmarks/frontier.py --recipes int8 int4 --keep figures.json

A recipe's download is its .ort file under zstd, as an archive has it. ggml's is what its tensors take in a .gguf file, without the
vocabulary, rounded by ggml's own Python package and computed with float32 activations, where llama.cpp rounds those, too;
positions and token types stay float32, as in llama.cpp. The .onnx files of transformers.js are made as its scripts make them: q8 by
onnxruntime's quantize_dynamic, q4 in blocks of 32 with a float32 table. Hosts send files of peers as they are; under zstd stands
beside that.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper
from rich.console import Console
from rich.table import Table

from edgepack.console import Story
from edgepack.files.frames import compress
from edgepack.models.find.source import ingest
from edgepack.models.reference import embed_with_onnxruntime, exported_model
from edgepack.plugins.context import HostContext, host_context
from edgepack.recipes.prepare import prepare_model
from edgepack.records.model import ModelSource
from edgepack.records.target import ModelOptions
from edgepack.verifier.tasks.sts import sts_task

RECIPES = ("int8", "int8-download", "int4")
GGML = ("Q8_0", "Q5_0", "Q4_0")
TOGETHER = 16
"""Texts."""
WIDTH, HEIGHT = 76, 16
"""Letters and lines of the plot."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """One form of the model, before its vectors are judged."""

    file: Path
    """What ONNX Runtime runs."""
    bytes: int
    compressed: int
    sent: int
    """Of the two what a download takes."""
    alone: bool = False
    """Whether a text's vector depends on those beside it."""


Maker = tuple[str, Callable[[], Form]]
"""A form's name, and what makes it."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A form and its STSBenchmark."""

    name: str
    bytes: int
    compressed: int
    sent: int
    sts: float


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--model", help="a folder or name; all-MiniLM-L6-v2 if not given")
    made.add_argument("--recipes", nargs="*", default=RECIPES)
    made.add_argument("--keep", type=Path, help="read and write what was measured, as JSON")
    options = made.parse_args()
    with host_context(story=Story()) as context, TemporaryDirectory() as folder:
        source = ingest(options.model, context=context)
        points = measured(source, options.recipes, Path(folder), options.keep, context)
    console = Console(width=110)
    console.print(table(points))
    console.print(plot([(point.sent, point.sts) for point in points]), markup=False, highlight=False)


def measured(
    source: ModelSource, recipes: Sequence[str], folder: Path, keep: Path | None, context: HostContext
) -> list[Point]:
    """The smallest download first; ``keep`` has what an earlier run measured."""
    kept = json.loads(keep.read_text()) if keep and keep.exists() else {}
    task = sts_task(context=context)
    for name, make in (*ours(source, recipes, context), *peers(source, folder, context)):
        if name in kept:
            continue
        form = make()
        sts = task.score(embedded(form, source, task.texts))
        point = Point(name=name, bytes=form.bytes, compressed=form.compressed, sent=form.sent, sts=sts)
        kept[name] = asdict(point)
        context.note(f"{name}: {point.sent / 1e6:.2f} MB, {sts:.4f}")
        if keep:
            keep.write_text(json.dumps(kept, indent=1))
    return sorted((Point(**each) for each in kept.values()), key=lambda point: point.sent)


def embedded(form: Form, source: ModelSource, texts: Sequence[str]) -> NDArray[np.float32]:
    """Vectors in the texts' order. Texts of like length go together where a vector does not depend on its neighbours."""
    order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    size = 1 if form.alone else TOGETHER
    made = embed_with_onnxruntime(form.file, source, [texts[index] for index in order], batch_size=size)
    vectors = np.empty_like(made)
    vectors[order] = made
    return vectors


def ours(source: ModelSource, recipes: Sequence[str], context: HostContext) -> Iterator[Maker]:
    def made(recipe: str) -> Form:
        prepared = prepare_model(source, options=ModelOptions(recipe=recipe), context=context)
        return of_file(prepared.file, archived=True, alone=prepared.batch_dependent)

    for recipe in recipes:
        yield recipe, partial(made, recipe)


def peers(source: ModelSource, folder: Path, context: HostContext) -> Iterator[Maker]:
    exact = exported_model(source, context=context)
    for kind in GGML:
        yield f"ggml {kind}", partial(in_blocks, exact, kind, folder)
    yield "transformers.js q8", lambda: of_file(dynamic_int8(exact, folder), alone=True)
    yield "transformers.js q4", lambda: of_file(blocks_of_four_bits(exact, folder))


def of_file(file: Path, *, archived: bool = False, alone: bool = False) -> Form:
    content = file.read_bytes()
    compressed = len(compress(content))
    sent = compressed if archived else len(content)
    return Form(file=file, bytes=len(content), compressed=compressed, sent=sent, alone=alone)


def in_blocks(exact: Path, kind: str, folder: Path) -> Form:
    """The model with the weights that a .gguf file of that type holds; its bytes are those of all tensors."""
    from gguf import GGMLQuantizationType, quants

    form = GGMLQuantizationType[kind]
    model = onnx.load(exact)
    tensors = []
    for tensor in model.graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT:
            continue
        values = numpy_helper.to_array(tensor)
        if not is_rounded(tensor.name, values):
            tensors.append(values.astype(np.float32).tobytes())
            continue
        # A row is what a number of the result is computed from; ONNX has it as a column.
        table = "embeddings" in tensor.name
        rows = np.ascontiguousarray(values if table else values.T)
        packed = quants.quantize(rows, form)
        tensors.append(packed.tobytes())
        rounded: NDArray[np.float32] = quants.dequantize(packed, form)
        tensor.CopyFrom(
            numpy_helper.from_array(rounded if table else np.ascontiguousarray(rounded.T), tensor.name)
        )
    file = folder / f"{kind}.onnx"
    onnx.save(model, file)
    content = b"".join(tensors)
    return Form(file=file, bytes=len(content), compressed=len(compress(content)), sent=len(content))


def is_rounded(name: str, values: NDArray[Any]) -> bool:
    return values.ndim == 2 and "position" not in name and "token_type" not in name


def dynamic_int8(exact: Path, folder: Path) -> Path:
    """``model_quantized.onnx``."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    file = folder / "q8.onnx"
    extra = {"EnableSubgraph": True, "MatMulConstBOnly": True}
    quantize_dynamic(
        exact, file, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True, extra_options=extra
    )
    return file


def blocks_of_four_bits(exact: Path, folder: Path) -> Path:
    """``model_q4.onnx``."""
    from onnxruntime.quantization.matmul_4bits_quantizer import MatMul4BitsQuantizer

    quantizer = MatMul4BitsQuantizer(onnx.load(exact), block_size=32, is_symmetric=True, accuracy_level=None)
    quantizer.process()
    file = folder / "q4.onnx"
    quantizer.model.save_model_to_file(str(file))
    return file


def table(points: Sequence[Point]) -> Table:
    made = Table("", "form", "MB", "MB zstd", "MB sent", "STS-B", "")
    for at, point in enumerate(points):
        sizes = (f"{size / 1e6:.2f}" for size in (point.bytes, point.compressed, point.sent))
        made.add_row(
            letter(at),
            point.name,
            *sizes,
            f"{point.sts:.4f}",
            "dominated" if is_dominated(point, points) else "",
        )
    return made


def letter(at: int) -> str:
    return chr(ord("a") + at)


def is_dominated(point: Point, points: Sequence[Point]) -> bool:
    """Whether another is no larger and no worse, and better in one of the two."""
    return any(
        other.sent <= point.sent
        and other.sts >= point.sts
        and (other.sent, other.sts) != (point.sent, point.sts)
        for other in points
    )


def plot(points: Sequence[tuple[int, float]]) -> str:
    """Scores upwards, bytes to the right in even steps of their logarithm; a letter is a row of the table, in its order."""
    sizes, scores = np.log([size for size, _ in points]), np.array([score for _, score in points])
    field = [[" "] * WIDTH for _ in range(HEIGHT)]
    for at, (size, score) in enumerate(zip(sizes, scores, strict=True)):
        across = round((size - sizes.min()) / max(np.ptp(sizes), 1e-9) * (WIDTH - 1))
        down = round((scores.max() - score) / max(np.ptp(scores), 1e-9) * (HEIGHT - 1))
        while field[down][across] != " " and across + 1 < WIDTH:
            across += 1
        field[down][across] = letter(at)
    steps = np.linspace(scores.max(), scores.min(), HEIGHT)
    lines = [f"{step:.4f} |{''.join(line).rstrip()}" for step, line in zip(steps, field, strict=True)]
    first, last = (f"{np.exp(edge) / 1e6:.1f} MB" for edge in (sizes.min(), sizes.max()))
    return "\n".join([*lines, " " * 7 + "+" + "-" * WIDTH, f"{'':8}{first}{last:>{WIDTH - len(first)}}"])


if __name__ == "__main__":
    main()
