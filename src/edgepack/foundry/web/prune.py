"""The stub tier: a runtime without the functions that one model never enters, found by running it with all that a page does.

A function that is missing after all traps; a page that keeps the whole runtime at hand starts again with that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import DownloadError, MissingToolError, ProofError, ToolError
from edgepack.foundry.prove import VOCABULARY
from edgepack.foundry.web.binary import WasmError
from edgepack.foundry.web.emscripten import wasm_opt
from edgepack.foundry.web.instrument import PREFIX, entered, instrument
from edgepack.foundry.web.prove import node_scripts, place, run_script, said, script_of
from edgepack.foundry.web.stock import onnxruntime_web
from edgepack.foundry.web.stub import stub_wasm
from edgepack.records import PreparedModel, RuntimeArtifact
from edgepack.store import key_of, sha256_of

SCHEMA = "3"
"""Changes when the same profile is pruned otherwise."""
LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 200, 256)
"""Tokens of a text: on both sides of every width that a kernel may have."""
BATCHES = (1, 2, 3, 4, 8)
TOKENS = 512
"""In one batch."""
FEATURES = (
    "--enable-simd",
    "--enable-bulk-memory",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-sign-ext",
)
"""What the modules use already: the optimizer is to bring in nothing that older browsers lack."""
THREADS = ("--enable-threads",)


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What one model is run with; everything that a page offers must be in it."""

    lengths: Sequence[int] = LENGTHS
    batches: Sequence[int] = BATCHES
    config: Mapping[str, str] | None = None
    """Session options that the page sets."""


def stub_web_runtime(
    model: PreparedModel, runtime: RuntimeArtifact, *, profile: Profile | None = None, context: BuildContext
) -> RuntimeArtifact:
    """The runtime without what the model never enters, optimized once more where binaryen can be had.

    Raises ``MissingToolError`` without Node, ``ProofError`` when the model does not run on the runtime.
    """
    vocabulary = int(model.source.config.get("vocab_size", VOCABULARY))
    longest = int(model.source.config.get("max_position_embeddings", max(LENGTHS)))
    return stub_runtime(
        model.file,
        runtime,
        vocabulary=vocabulary,
        longest=longest,
        profile=profile or Profile(),
        context=context,
    )


def stub_runtime(
    model: Path,
    runtime: RuntimeArtifact,
    *,
    vocabulary: int = VOCABULARY,
    longest: int = max(LENGTHS),
    profile: Profile,
    context: BuildContext,
) -> RuntimeArtifact:
    """The same for a model file; texts are at most ``longest`` tokens."""
    optimizer = _optimizer(context)
    lengths = sorted({*(length for length in profile.lengths if length <= longest)})
    request: dict[str, object] = {"lengths": lengths, "batches": list(profile.batches), "tokens": TOKENS}
    if profile.config is not None:
        request["config"] = dict(profile.config)
    inputs = {
        "schema": SCHEMA,
        "wasm": sha256_of(runtime.library),
        "glue": sha256_of(script_of(runtime)),
        "model": sha256_of(model),
        "profile": json.dumps(request),
        "scripts": key_of(node_scripts()),
        "optimizer": context.run([optimizer, "--version"]).strip() if optimizer else "",
    }

    def make(folder: Path) -> None:
        functions = _entered(model, runtime, {**request, "vocabulary": vocabulary}, context)
        _prune(runtime, functions, folder, optimizer, context)

    folder = context.store.cached("runtime-stub", inputs, make)
    counted = json.loads((folder / "functions.json").read_text())
    module = folder / runtime.library.name
    context.note(
        f"{counted['kept']} of {counted['functions']} functions, {module.stat().st_size / 1e6:.2f} MB"
    )
    return replace(
        runtime,
        library=module,
        companions=(folder / script_of(runtime).name,),
        toolchain=f"{runtime.toolchain}, {counted['kept']} of {counted['functions']} functions",
        proofs=(),
    )


def _entered(
    model: Path, runtime: RuntimeArtifact, request: Mapping[str, object], context: BuildContext
) -> frozenset[int]:
    """The functions that everything which a page may do leads to."""
    module = context.work_dir / f"instrumented-{runtime.library.name}"
    try:
        module.write_bytes(instrument(runtime.library.read_bytes()))
    except WasmError as error:
        raise ToolError(f"{runtime.library.name} cannot be instrumented: {error}") from error
    package = onnxruntime_web(context=context) / "dist/ort.wasm.min.mjs"
    files = {**place(runtime), "wasm": str(module), "model": str(model), "package": str(package)}
    with context.progress("profile the runtime"):
        try:
            answer = run_script("profile.mjs", {**files, **request, "prefix": PREFIX}, context=context)
        except ToolError as error:
            raise ProofError(f"{model.name} does not run on {runtime.library.name}: {said(error)}") from error
    return entered({int(number): int(word) for number, word in answer["words"].items()})


def _prune(
    runtime: RuntimeArtifact,
    functions: frozenset[int],
    folder: Path,
    optimizer: Path | None,
    context: BuildContext,
) -> None:
    stubbed = stub_wasm(runtime.library.read_bytes(), functions)
    output = folder / runtime.library.name
    output.write_bytes(stubbed.module)
    if optimizer:
        smaller = context.work_dir / f"optimized-{runtime.library.name}"
        # Until nothing gets smaller any more, but for the stock module, where that takes minutes.
        special = ("-O2", *THREADS) if runtime.kind == "stock" else ("-Os", "--converge")
        flags = ["--strip-debug", "--strip-producers", *FEATURES, *special]
        with context.progress("optimize the runtime"):
            context.run([optimizer, *flags, output, "-o", smaller])
        smaller.replace(output)
        output.chmod(0o644)
    script = script_of(runtime)
    (folder / script.name).write_bytes(script.read_bytes())
    counted = {"functions": stubbed.functions, "kept": stubbed.kept}
    (folder / "functions.json").write_text(json.dumps(counted))


def _optimizer(context: BuildContext) -> Path | None:
    try:
        return wasm_opt(context=context)
    except (MissingToolError, DownloadError) as error:
        context.note(f"not optimized further: {error.message}")
        return None
