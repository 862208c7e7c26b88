"""A user's own module around the model, in a process of the host's with limits: edgepack's process never imports it."""

import json
import math
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
from edgepack.terminal_text import foreign
from edgepack.verifier.confined.answers import BadAnswer, read_answers
from edgepack.verifier.confined.found import find_sandbox
from edgepack.verifier.confined.limits import RunLimits
from edgepack.verifier.confined.program import Ended, confine
from edgepack.verifier.confined.sandbox import view_of

SCRIPT = Path(__file__).with_name("user_module.py")
"""What loads a module and calls it, here as in the frozen program."""
LIMITS = RunLimits(seconds=300, resident=2 << 30, address_space=2 << 30, processes=64)
LONGEST = 200
"""Letters of a module's last words that are shown."""


def text_module(file: Path, *, context: BuildContext) -> TextModule:
    """The module in a file, loaded once to see whether it can be. This and its calls raise ``VerificationError``."""

    def called(function: str) -> Any:
        return lambda *arguments: _made(file, {"function": function, "arguments": arguments}, context)

    _made(file, {}, context)
    return TextModule(
        name=file.name, sha256=sha256_of(file), prepare=called("prepare"), finish=called("finish")
    )


def module_of(
    bundle: Bundle, *, ours: bool, named: Path | None = None, context: BuildContext
) -> TextModule | None:
    """The module that the full-precision model gets, too: that of the bundle's program, where it is ``ours`` or the user has ``named`` it.

    Any other would judge itself: its ``finish`` can give the same for two models that have nothing in common. Raises
    ``VerificationError`` where the bundle has another one than ``named``.
    """
    listed = bundle.manifest["runner"].get("module")
    file = bundle.directory / listed if listed else None
    if named is not None and (file is None or not named.is_file() or sha256_of(file) != sha256_of(named)):
        raise VerificationError(
            f"{named} is not the module of {bundle.name}" + ("" if file else ", which has none"),
            hint="name the target that the bundle was made for, or one without runner.module",
        )
    if file is not None and not ours and named is None:
        context.note(
            f"compared with the model alone, without {file.name}: a stranger's module does not judge itself; "
            "--target with runner.module names one that you have read"
        )
        return None
    return text_module(file, context=context) if file else None


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
    try:
        ((made, error, hint),) = read_answers(ended.output, 1, lambda value: _answer(value, asked))
    except BadAnswer as bad:
        raise VerificationError(
            f"{file.name} answered in the place of what runs it: {bad}",
            hint="what it prints goes to standard error; nothing else is for it to write to",
        ) from bad
    if error:
        raise VerificationError(error, hint=hint)
    return made


def _answer(value: Any, asked: Mapping[str, Any]) -> tuple[Any, str, str]:
    """Answer of a module: what it made, or what is wrong and a hint. The process is the module's, which may have
    written the answer itself.
    """
    if "error" in value:
        error, hint = value["error"], value["hint"]
        if not isinstance(error, str) or not isinstance(hint, str):
            raise ValueError("what is wrong is no text")
        return None, foreign(error), foreign(hint)
    made, given = value["made"], asked.get("arguments", [None])[0]
    function = asked.get("function")
    if function is None:
        right = made is None
    elif not isinstance(made, list) or len(made) != len(given):
        right = False
    elif function == "prepare":
        right = all(isinstance(each, str) for each in made)
    else:
        right = all(_is_vector(row, len(known)) for row, known in zip(made, given, strict=True))
    if not right:
        raise ValueError(f"not what {function or 'loading it'} gives")
    return made, "", ""


def _is_vector(row: Any, count: int) -> bool:
    return (
        isinstance(row, list)
        and len(row) == count
        and all(type(each) in (int, float) and math.isfinite(each) for each in row)
    )


def _why(ended: Ended) -> str:
    if ended.passed:
        return LIMITS.in_words(ended.passed)
    last = ended.messages.strip().splitlines()[-1:]
    return ended.refused or foreign("".join(last)[:LONGEST]) or f"exit code {ended.code}"
