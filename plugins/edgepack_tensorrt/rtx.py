"""TensorRT-RTX: the engine is in the bundle, and a device's own kernels are compiled when it is first used."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgepack.api import BuildContext, ExecutionProvider, PreparedModel, RuntimeArtifact
from edgepack.api.kit import RuntimeFolder
from edgepack_cuda.api import CUDA
from edgepack_tensorrt.engine import ENGINE, build_engine
from edgepack_tensorrt.pins import BINDINGS_VERSION, ONNXRUNTIME, PROVIDER, TENSORRT_RTX
from edgepack_tensorrt.profile import Profile
from edgepack_tensorrt.runtime import DRIVER_LIBRARIES, LIBRARY, NAME, bindings_folder
from edgepack_tensorrt.shared_weights import share_weights

REMEDY = (
    "TensorRT-RTX is for GeForce and RTX GPUs of compute capability 8.6, 8.9 and 12.0 on; "
    "for another one take a bundle of target linux-x64-cuda"
)
CACHE_KEY_LENGTH = 12
DOMAIN = "com.microsoft"
PARTITION = "edgepack"
"""What the engine's part of the graph is called; the provider names its runtime cache after it."""


@dataclass(frozen=True, kw_only=True)
class RtxModel:
    """The files of a model: an EPContext that names an engine, the engine, and the ONNX model on its weights."""

    context: Path
    engine: Path
    fallback: Path


def with_engine(
    prepared: PreparedModel,
    *,
    profile: Profile,
    capabilities: Sequence[str],
    libraries: RuntimeFolder,
    context: BuildContext,
) -> PreparedModel:
    """The model as an engine, and beside it as ONNX for the processor, which takes its weights from the engine's file."""
    engine = build_engine(
        prepared.file,
        profile=profile,
        capabilities=capabilities,
        libraries=libraries.lib,
        bindings=bindings_folder(context),
        context=context,
    )
    folder = context.work_dir / "tensorrt-model"
    folder.mkdir(exist_ok=True)
    files = RtxModel(context=folder / "model.onnx", engine=folder / ENGINE, fallback=folder / "fallback.onnx")
    files.engine.unlink(missing_ok=True)
    files.engine.symlink_to(engine.file)
    shared = share_weights(prepared.file, files.engine, files.fallback)
    write_context_model(
        files.context,
        like=files.fallback,
        engine=ENGINE,
        provider=NAME,
        tensorrt=engine.tensorrt,
        capabilities=capabilities,
    )
    said = f"engine of TensorRT-RTX {engine.tensorrt} for {', '.join(capabilities)}, {engine.layers} layers, "
    said += f"{engine.file.stat().st_size / 1e6:.1f} MB; "
    said += f"{shared.shared / (shared.shared + shared.kept):.1%} of the weights kept once"
    context.note(said)
    return replace(
        prepared,
        file=files.context,
        cpu_file=files.fallback,
        companions=(files.engine,),
        recipe=f"{prepared.recipe}, engine(batch={profile.most_texts}, tokens={profile.most_tokens}, "
        f"capabilities={json.dumps(list(capabilities))})",
    )


def rtx_runtime(
    model: PreparedModel, *, profile: Profile, capabilities: Sequence[str], libraries: RuntimeFolder
) -> RuntimeArtifact:
    """ONNX Runtime and the provider: the stock library, which holds every kernel."""
    engine = next(path for path in model.companions if path.name == ENGINE)
    key = _key(engine)
    return libraries.artifact(
        version=ONNXRUNTIME.version,
        toolchain=f"wheels {ONNXRUNTIME.requirement}, {PROVIDER.requirement}",
        source_files=(*ONNXRUNTIME.source_files("onnxruntime"), *PROVIDER.source_files(PROVIDER.name)),
        provider=ExecutionProvider(
            name=NAME,
            append="plugin",
            library=f"lib/{LIBRARY}",
            options={
                "nv_runtime_cache_path": f"{{cache}}/tensorrt-rtx-{TENSORRT_RTX}-{key}",
                # Only for graphs that are not an engine yet; an engine has its own.
                **profile.options(model.inputs),
            },
            capabilities=tuple(capabilities),
            remedy=REMEDY,
            cuda=CUDA,
            system=DRIVER_LIBRARIES,
            batch_size=profile.usual_texts,
            largest_batch=profile.most_texts,
        ),
        changes=(f"{LIBRARY}: run path $ORIGIN",),
    )


def _key(engine: Path) -> str:
    digest = hashlib.sha256(engine.read_bytes() + BINDINGS_VERSION.encode()).hexdigest()
    return digest[:CACHE_KEY_LENGTH]


def write_context_model(
    output: Path, *, like: Path, engine: str, provider: str, tensorrt: str, capabilities: Iterable[str]
) -> None:
    """Write a model with the inputs and outputs of ``like`` whose only node loads ``engine``, a file's name."""
    import onnx
    from onnx import helper

    graph = onnx.load(str(like), load_external_data=False).graph
    node = helper.make_node(
        "EPContext",
        [each.name for each in graph.input],
        [each.name for each in graph.output],
        name=PARTITION,
        domain=DOMAIN,
        main_context=1,
        embed_mode=0,
        ep_cache_context=engine,
        ep_sdk_version=tensorrt,
        hardware_architecture=",".join(f"sm{each.replace('.', '')}" for each in capabilities),
        partition_name=PARTITION,
        source=provider,
        onnx_model_filename=like.name,
    )
    opset = next(
        each
        for each in onnx.load(str(like), load_external_data=False).opset_import
        if each.domain in ("", "ai.onnx")
    )
    model = helper.make_model(
        helper.make_graph([node], PARTITION, graph.input, graph.output),
        opset_imports=[opset, helper.make_opsetid(DOMAIN, 1)],
        producer_name="edgepack",
        ir_version=10,
    )
    output.write_bytes(model.SerializeToString(deterministic=True))
