"""Pack what `make test-gpu` needs for a machine with a GPU and no network: dist/gpu-kit, at most 64 MiB a file.

    python benchmarks/gpu_kit.py --arch 90
    PYTHONPATH=. python benchmarks/gpu_kit.py --arch 90 --families

`kit.tar.xz` has a thin bundle of all-MiniLM-L6-v2 as `edgepack bundle` makes it, texts and full-precision
vectors; `whole.tar.xz` the provider with all units of the architecture, to compare with. The second may follow in a later copy,
and so may `families.tar.xz` (--families), models of every architecture that edgepack exports itself, which needs both.
"""

import argparse
import json
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path

from edgepack.bundles.assemble import assemble
from edgepack.console import Story
from edgepack.context import BuildContext
from edgepack.models.find.source import ingest
from edgepack.models.reference import reference_vectors
from edgepack.plugins.context import host_context
from edgepack.plugins.host import load_plugins
from edgepack.records.model import ModelSource
from edgepack.verifier.gate import verification_texts
from edgepack_cuda.builder import CudaBuilder, create_builder
from edgepack_cuda.fatbin import HEADER, NO_CODE, Fatbin, fatbin_bytes
from edgepack_cuda.image import Image, read_image
from edgepack_cuda.kernels import kernels_of
from edgepack_cuda.prune import device_code
from edgepack_cuda.runtime import PROVIDER

LARGEST = 64 << 20
TARGET = "linux-x64-cuda"
BROKEN = "SkipLayerNormKernel"
"""The kernel whose unit is emptied on the device, to see what is said then: every layer of an encoder has one."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arch", default="90", help="compute capability of the machine with the GPU")
    parser.add_argument("--output", type=Path, default=Path("dist/gpu-kit"))
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--families", action="store_true", help="make families.tar.xz, and nothing else")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    with host_context(story=Story()) as context, tempfile.TemporaryDirectory() as folder:
        if options.families:
            pack_families(options.output, options.arch, context, Path(folder))
        else:
            pack(options.output, options.arch, options.texts, context, Path(folder) / "bundle")


def pack(output: Path, arch: str, count: int, context: BuildContext, folder: Path) -> None:
    source = ingest(None, context=context)
    builder = builder_for(context, f'capabilities=["{arch}"]')
    model = builder.prepare_model(source)
    runtime = builder.provide_runtime(model)
    runner = builder.make_runner(model, runtime)
    folder.mkdir()
    assemble(
        target=builder.target, model=model, runtime=runtime, runner=runner, folder=folder, context=context
    )
    whole = replace(builder, units="all").provide_runtime(model)
    provider = folder / "lib" / PROVIDER
    facts = {"arch": arch, **patches(provider), **questions(source, count, context)}
    facts_file = folder.with_name("facts.json")
    facts_file.write_text(json.dumps(facts))
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    bundle = [(f"bundle/{name}", path) for name, path in sorted(files.items())]
    write(output / "kit.tar.xz", [("facts.json", facts_file), *bundle])
    write(output / "whole.tar.xz", [(f"whole/{PROVIDER}", provider_of(whole.companions))])


def pack_families(output: Path, arch: str, context: BuildContext, folder: Path) -> None:
    # With the tests' models, which the rest of the kit does without.
    from benchmarks import gpu_families

    capabilities = f'capabilities=["{arch}"]'
    builder = builder_for(context, capabilities)
    builders = {
        name: builder_for(context, capabilities, f"model.recipe={name}") for name in ("fp32", "unfused")
    }
    model = builder.prepare_model(ingest(None, context=context))
    runtime = builder.provide_runtime(model)
    whole = provider_of(replace(builder, units="all").provide_runtime(model).companions)
    provider = gpu_families.read_provider(whole)
    operators = builder.operators(model) or ()
    kept = provider.kept(operators, builder.architectures, "all-MiniLM-L6-v2")
    gpu_families.require_same(provider, kept, provider_of(runtime.companions))
    members = gpu_families.families(runtime, provider, folder, {"": builder, **builders})
    write(output / "families.tar.xz", members)


def builder_for(context: BuildContext, *options: str) -> CudaBuilder:
    builder = create_builder(load_plugins().target(TARGET, options), context)
    assert isinstance(builder, CudaBuilder)
    return builder


def provider_of(companions: tuple[Path, ...]) -> Path:
    return next(path for path in companions if path.name == PROVIDER)


def patches(provider: Path) -> dict[str, object]:
    """What is written over the provider on the device, to make other forms of it: place in the file → bytes.

    ``broken`` is without the code of a unit that the model needs; in ``empty`` pruned units have no entry at all.
    """
    image = read_image(provider.read_bytes(), provider.name)
    section, code, fatbins = device_code(image, provider.name)

    def place(fatbin: Fatbin) -> int:
        return image.offset_of(section.address + fatbin.offset)

    needed = next(each for each in fatbins if BROKEN in kernels_of(code, each))
    without = fatbin_bytes(code, replace(needed, codes=()))
    pruned = [each for each in fatbins if not each.codes and is_held(image, place(each))]
    return {
        "broken": [[place(needed), without.hex()]],
        "empty": [[place(each), HEADER.pack(0xBA55ED50, 1, HEADER.size, 0).hex()] for each in pruned],
        "pruned_units": len(pruned),
    }


def is_held(image: Image, offset: int) -> bool:
    start = offset + HEADER.size
    return image.content[start : start + len(NO_CODE)] == NO_CODE


def questions(source: ModelSource, count: int, context: BuildContext) -> dict[str, object]:
    """Texts, and the full-precision model's vectors."""
    texts = verification_texts()[:count]
    return {"texts": texts, "vectors": reference_vectors(source, texts, context=context).tolist()}


def write(path: Path, members: list[tuple[str, Path]]) -> None:
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for name, file in members:
            archive.add(file.resolve() if file.is_symlink() else file, name)
    size = path.stat().st_size
    print(f"{path}: {size / 1e6:.2f} MB" + (" TOO LARGE" if size > LARGEST else ""))  # noqa: T201


if __name__ == "__main__":
    main()
