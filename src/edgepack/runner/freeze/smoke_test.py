"""A freshly frozen program, run on a tiny bundle: what was left out of Python shows here, not on the device."""

import json
import shutil
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import ProofError, ToolError
from edgepack.runner.freeze.sample_bundle import (
    DIMENSION,
    write_compiled_tokenizer,
    write_manifest,
    write_sample,
)
from edgepack.verifier.confined.limits import RunLimits
from edgepack.verifier.confined.program import confine
from edgepack.verifier.confined.sandbox import View

TEXTS = ("a cat sat on the mat", "the kitten " * 1000, "")
"""One of them is cut before it is tokenized."""


def smoke_test(
    program: Path, *, work: Path, compiled: bool, module: Path | None = None, context: BuildContext
) -> None:
    """Raises ``ProofError`` when the program in the folder ``program`` does not embed, does not serve or has no words for an error."""
    bundle = work / "bundle"
    shutil.rmtree(bundle, ignore_errors=True)
    shutil.copytree(program, bundle, symlinks=True)
    write_sample(bundle)
    if compiled:
        write_compiled_tokenizer(bundle)
    library = next((bundle / "lib").iterdir()).relative_to(bundle).as_posix()
    write_manifest(bundle, library=library, module=f"module/{module.name}" if module else None)

    def run(*arguments: str) -> str:
        ended = confine(
            [bundle / "embed", *arguments],
            bundle,
            sandbox=None,
            view=View(),
            work=work,
            progress=context.progress,
        )
        if ended.code or ended.passed or ended.refused:
            why = ended.refused or (RunLimits().in_words(ended.passed) if ended.passed else ended.messages)
            raise ToolError(f"embed {' '.join(arguments)}: {why.strip()}")
        return ended.output

    try:
        vectors = [record["embedding"] for record in json.loads(run(*TEXTS))]
        if [len(vector) for vector in vectors] != [DIMENSION] * len(TEXTS):
            raise ProofError("the frozen program does not work: it gives other vectors than the model's")
        run("serve", "--check", "--port=0")
        refused = False
        try:
            run("--nonsense")
        except ToolError as error:
            refused = "nonsense" in error.message and "Traceback" not in error.message
        if not refused:
            raise ProofError("the frozen program does not work: it takes --nonsense, or has no words for it")
    except (ToolError, ValueError, KeyError, TypeError) as error:
        raise ProofError(f"the frozen program does not work: {error}") from error
    shutil.rmtree(bundle)
