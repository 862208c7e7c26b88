"""A user's own module around the model, in a process of the host's with limits: edgepack's process never imports it."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgepack.context import BuildContext
from edgepack.errors import VerificationError
from edgepack.files.store import sha256_of
from edgepack.records.bundle import Bundle
from edgepack.records.model import TextModule
from edgepack.verifier.confined.found import find_sandbox
from edgepack.verifier.confined.limits import RunLimits
from edgepack.verifier.confined.program import Ended, confine
from edgepack.verifier.confined.sandbox import view_of

SCRIPT = Path(__file__).with_name("user_module.py")
"""What loads a module and calls it, here as in the frozen program."""
LIMITS = RunLimits(seconds=300, resident=2 << 30, address_space=2 << 30, processes=64)


def text_module(file: Path, *, context: BuildContext) -> TextModule:
    """The module in a file, loaded once to see whether it can be. This and its calls raise ``VerificationError``."""

    def called(function: str) -> Any:
        return lambda *arguments: _made(file, {"function": function, "arguments": arguments}, context)

    _made(file, {}, context)
    return TextModule(
        name=file.name, sha256=sha256_of(file), prepare=called("prepare"), finish=called("finish")
    )


def module_of(bundle: Bundle, *, context: BuildContext) -> TextModule | None:
    """The module that a bundle's program runs around the model."""
    file = bundle.manifest["runner"].get("module")
    return text_module(bundle.directory / file, context=context) if file else None


def _made(file: Path, asked: Mapping[str, Any], context: BuildContext) -> Any:
    python = Path(os.path.realpath(sys.executable))
    folder = file.absolute().parent
    ended = confine(
        [python, "-I", "-S", SCRIPT, folder / file.name],
        folder,
        sandbox=find_sandbox(),
        view=view_of([folder, SCRIPT, Path(sys.base_prefix), python], system=True),
        work=context.work_dir,
        limits=LIMITS,
        input=json.dumps(asked),
        progress=context.progress,
    )
    if ended.code or ended.passed or ended.refused:
        raise VerificationError(
            f"{file.name} ended the process that runs it: {_why(ended)}",
            hint="the module runs in a process of its own, with limits, and without a network",
        )
    answer = json.loads(ended.output)
    if "error" in answer:
        raise VerificationError(answer["error"], hint=answer["hint"])
    return answer["made"]


def _why(ended: Ended) -> str:
    if ended.passed:
        return LIMITS.in_words(ended.passed)
    last = ended.messages.strip().splitlines()[-1:]
    return ended.refused or "".join(last) or f"exit code {ended.code}"
