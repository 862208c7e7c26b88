"""Pack what `make test-gpu` needs for a machine with a GPU and no network: dist/gpu-kit, at most 64 MiB a file.

    python benchmarks/gpu_kit.py --arch 90

`kit.tar.xz` has the libraries of a thin bundle pruned for all-MiniLM-L6-v2, the model, token ids and full-precision
vectors; `whole.tar.xz` the provider with all units of the architecture, to compare with. The second may follow in a
later copy.
"""

from __future__ import annotations

import argparse
import json
import tarfile
from dataclasses import replace
from pathlib import Path

from edgepack.bundle.verify import verification_texts
from edgepack.console import Story
from edgepack.context import BuildContext
from edgepack.models.reference import batches, reference_vectors
from edgepack.models.source import ingest
from edgepack.plugins.context import host_context
from edgepack.plugins.host import load_plugins
from edgepack.recipes.prepare import prepare_model
from edgepack.records import ModelSource
from edgepack_cuda.fatbin import read_fatbins
from edgepack_cuda.image import read_image
from edgepack_cuda.kernels import kernels_of
from edgepack_cuda.runtime import PROVIDER, Choice, libraries_for

LARGEST = 64 << 20
BROKEN = "SkipLayerNormKernel"
"""The kernel whose unit is emptied on the device, to see what is said then: every layer of an encoder has one."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arch", default="90", help="compute capability of the machine with the GPU")
    parser.add_argument("--output", type=Path, default=Path("dist/gpu-kit"))
    parser.add_argument("--texts", type=int, default=64)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    with host_context(story=Story()) as context:
        pack(options.output, options.arch, options.texts, context)


def pack(output: Path, arch: str, count: int, context: BuildContext) -> None:
    source = ingest(None, context=context)
    target = load_plugins().target("linux-x64-cuda", [])
    model = prepare_model(source, options=target.model, platform=target.platform, context=context)
    import onnx

    operators = tuple(sorted({node.op_type for node in onnx.load(str(model.file)).graph.node}))
    choice = Choice(architectures=(arch,), operators=operators)
    pruned = libraries_for(choice, context=context)
    whole = libraries_for(replace(choice, operators=None), context=context)
    provider = next(path for path in pruned.companions if path.name == PROVIDER)
    facts = {
        "capabilities": list(pruned.capabilities),
        "libraries": list(pruned.device),
        "empty_at": place_of(provider, BROKEN),
        **questions(source, count, context),
    }
    facts_file = output / "facts.json"
    facts_file.write_text(json.dumps(facts))
    members = {f"lib/{path.name}": path for path in (pruned.onnxruntime, *pruned.companions)}
    write(output / "kit.tar.xz", {**members, "model.onnx": model.file, "facts.json": facts_file})
    all_units = next(path for path in whole.companions if path.name == PROVIDER)
    write(output / "whole.tar.xz", {f"whole/{PROVIDER}": all_units})


def questions(source: ModelSource, count: int, context: BuildContext) -> dict[str, object]:
    """Token ids of texts, each alone, and the full-precision model's vectors."""
    texts = verification_texts()[:count]
    rows = [feed["input_ids"][0].tolist() for feed in batches(source, texts, 1)]
    return {"ids": rows, "vectors": reference_vectors(source, texts, context=context).tolist()}


def place_of(provider: Path, kernel: str) -> int:
    """Where in the file the unit that holds a kernel says how large it is."""
    image = read_image(provider.read_bytes(), provider.name)
    section = image.section(".nv_fatbin")
    assert section is not None
    code = image.read(section.address, section.size)
    unit = next(each for each in read_fatbins(code) if kernel in kernels_of(code, each))
    return image.offset_of(section.address + unit.offset) + 8


def write(path: Path, members: dict[str, Path]) -> None:
    with tarfile.open(path, "w:xz", preset=6) as archive:
        for name, file in sorted(members.items()):
            archive.add(file, name)
    size = path.stat().st_size
    print(f"{path}: {size / 1e6:.2f} MB" + (" TOO LARGE" if size > LARGEST else ""))  # noqa: T201


if __name__ == "__main__":
    main()
