"""The proof of a WebAssembly runtime: the shipped model, run on it in Node, against the stock library's vectors."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgepack.api import BuildContext, BundleError, PreparedModel, ProofError, RuntimeArtifact, ToolError
from edgepack.api.kit import RELEASE, LevelProof
from edgepack.foundry.proof.prove import (
    QUANTIZED_TOLERANCE,
    TOLERANCE,
    VOCABULARY,
    expected_vectors,
    require_near,
    token_ids,
)
from edgepack_web.npm.modules import joined
from edgepack_web.npm.node import find_node

HERE = Path(__file__).parent
LEVEL = "wasm32"
THREADS = (1, 2, 4)


def prove_web(model: PreparedModel, runtime: RuntimeArtifact, *, context: BuildContext) -> LevelProof:
    """Proof of a model on a runtime.

    Raises ``ProofError`` when the model does not run (a missing kernel is named) or its vectors are others,
    ``MissingToolError`` without Node.
    """
    tolerance = TOLERANCE.get(model.precision, QUANTIZED_TOLERANCE)
    vocabulary = int(model.source.config.get("vocab_size", VOCABULARY))
    return prove_module(model.file, runtime, tolerance=tolerance, vocabulary=vocabulary, context=context)


def prove_module(
    model: Path,
    runtime: RuntimeArtifact,
    *,
    tolerance: float = QUANTIZED_TOLERANCE,
    vocabulary: int = VOCABULARY,
    context: BuildContext,
) -> LevelProof:
    """Proves a module with a model file; ``tolerance`` is a cosine."""
    texts = token_ids(vocabulary)
    expected = expected_vectors(model, texts)
    name = runtime.file.name
    counts = THREADS if runtime.kind != "stock" and has_threads(runtime) else (1,)
    request = {**place(runtime), "model": str(model), "texts": texts, "threads": counts}
    try:
        answer = run_script("prove.mjs", request, context=context)
    except ToolError as error:
        raise ProofError(
            f"{model.name} does not run on {name}: {said(error)}",
            hint="if the message names a missing kernel: build the runtime for this file's operators",
        ) from error
    cosine = min(
        require_near(vectors, expected, tolerance=tolerance, what=model.name, where=name)
        for vectors in answer["runs"]
    )
    version = context.run([find_node(), "--version"]).strip()
    with_threads = f", {', '.join(map(str, counts))} threads" if len(counts) > 1 else ""
    return LevelProof(level=LEVEL, proved=True, by=f"Node {version}{with_threads}", min_cosine=cosine)


def run_script(name: str, request: Mapping[str, Any], *, context: BuildContext) -> Any:
    """Run one of the scripts in Node on a request, and return what it answers. Raises ``ToolError``."""
    folder = context.work_dir / "node"
    folder.mkdir(exist_ok=True)
    for script, text in node_scripts().items():
        (folder / script).write_text(text, encoding="utf-8")
    asked = folder / "request.json"
    asked.write_text(json.dumps(request))
    node = find_node()
    return json.loads(
        context.run([node, folder / name, asked], log_file=folder / f"{name}.log").splitlines()[-1]
    )


def node_scripts() -> dict[str, str]:
    """Name → text of what runs in Node: the proof, and the page's session with all that it imports."""
    proof = HERE / "data" / "prove.mjs"
    return {
        proof.name: proof.read_text(encoding="utf-8"),
        "session.mjs": joined(HERE.parent / "js" / "session.mjs"),
    }


def place(runtime: RuntimeArtifact) -> dict[str, str]:
    """Paths of a runtime's two files."""
    return {"wasm": str(runtime.file), "glue": str(script_of(runtime))}


def module_artifact(module: Path) -> RuntimeArtifact:
    """A module that is out there, with the script beside it. Raises ``BundleError`` where there is not just one."""
    scripts = sorted(module.parent.glob("*.mjs"))
    own = [script for script in scripts if script.stem == module.stem] or scripts
    if len(own) != 1:
        raise BundleError(
            f"beside {module.name} should lie its JavaScript, {module.stem}.mjs",
            hint="`edgepack runtime lib -t web-wasm` makes both",
        )
    return RuntimeArtifact(
        library=module,
        companions=(own[0],),
        version=RELEASE.version,
        kind="minimal",
        provides=None,
        toolchain="",
        licenses=(),
    )


def has_threads(runtime: RuntimeArtifact) -> bool:
    """Whether it can have more than one thread."""
    return "pthread" in script_of(runtime).read_text(encoding="utf-8")


def script_of(runtime: RuntimeArtifact) -> Path:
    """The JavaScript module beside the WebAssembly."""
    return next(path for path in runtime.companions if path.suffix == ".mjs")


def said(error: ToolError) -> str:
    """The line of Node's complaint that says it."""
    lines: Sequence[str] = [line.strip() for line in error.message.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("Error:", "RuntimeError:", "Aborted("))]
    return (telling or lines[-1:] or ["no message"])[0]
