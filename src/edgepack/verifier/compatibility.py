"""Whether a runtime that is already out there runs a model, found by trying, in a process that has nothing else."""

import json
import math
import platform
import re
import signal
import sys
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import BundleError, ToolError
from edgepack.files.elf import architecture
from edgepack.models.ort.processor_time import Allowance, model_bytes, too_long
from edgepack.models.ort.releases import writers_of
from edgepack.operators.config import operators_of_ort_model
from edgepack.records.operators import Operator
from edgepack.records.runtime import Fit
from edgepack.verifier.without_operators import Name, ort_format_version, prune_onnx, prune_ort

_SCRIPT = """\
import json, pathlib, sys
import numpy
from edgepack.models.ort.c_api import Api, OrtError, Session
library, model = map(pathlib.Path, sys.argv[1:3])
def tell(**said):
    print(json.dumps(said), flush=True)
try:
    tell(version=Api(library).version)
except OrtError as error:
    tell(foreign=str(error))
    sys.exit()
try:
    session = Session(library, model, threads=1)
except OrtError as error:
    tell(refused=str(error))
    sys.exit()
tell(loaded=True)
text = {"input_ids": [[101, 2000, 2001, 102]], "attention_mask": [[1] * 4], "token_type_ids": [[0] * 4]}
if all(each.name in text and each.dtype in (numpy.int32, numpy.int64) for each in session.get_inputs()):
    try:
        feed = {each.name: numpy.array(text[each.name], each.dtype) for each in session.get_inputs()}
        session.run([session.get_outputs()[0].name], feed)
        tell(ran=True)
    except OrtError as error:
        tell(failed=str(error))
"""
_NO_KERNEL = re.compile(
    r"(?:Could not find an implementation|Failed to find kernel) for (?:\S+\.)?(\w+)\((\d+)\)"
)
_NO_OPERATOR = re.compile(r"\b(\w+)\((-?\d+)\) is not a registered function/op")
_ORT_VERSION = re.compile(r"ORT format model(?:s older than)? version \[?\d+")
_ONNX_VERSION = re.compile(r"Unsupported model IR version: (\d+), max supported IR version: (\d+)")


def try_model(library: Path, model: Path, *, context: BuildContext) -> Fit:
    """Load a model on a library, and on what is left of the model find out what else is missing.

    Raises ``BundleError`` for a file that is not an ONNX Runtime, or not one for this machine, and ``ModelError`` for
    a file that is not a model, or that computes for too long.
    """
    _require_loadable(library)
    in_ort_format = model.suffix == ".ort"
    format_version = ort_format_version(model) if in_ort_format else ""
    names = _operators_by_name(model) if in_ort_format else {}
    missing: dict[Name, str] = {}
    trial, first = model, None
    while True:
        answer = _try(library, trial, context)
        version = str(answer.get("version", ""))
        lacking = _lacking(str(answer.get("refused", "")))
        first = first or answer
        if lacking is None or lacking in missing:
            break
        missing[lacking] = names.get(lacking, f"{lacking[0]} {lacking[1]}".removesuffix(" -1"))
        trial = context.work_dir / f"pruned{model.suffix}"
        if not _prune(model, trial, missing, in_ort_format):
            return Fit(version=version, missing=tuple(missing.values()), complete=False)
    if missing:
        # A full build checks that the rest of the graph is connected before it looks for kernels.
        complete = "refused" not in answer or "Invalid model" not in str(answer["refused"])
        return Fit(version=version, missing=tuple(sorted(missing.values())), complete=complete)
    reason = _reason(first, library.name, model.name, version, format_version)
    return Fit(version=version, reason=reason, ran=bool(first.get("ran")))


def _require_loadable(library: Path) -> None:
    if not library.is_file():
        raise BundleError(
            f"there is no library {library}", hint="`edgepack runtime lib` makes one, lib/libonnxruntime.so"
        )
    machine = architecture(library)
    if machine is None:
        raise BundleError(
            f"{library} is not a shared library", hint="name the libonnxruntime.so, not a folder or package"
        )
    if machine != platform.machine():
        raise BundleError(
            f"{library.name} is for {machine} and cannot be loaded on this {platform.machine()} machine",
            hint="put the required_operators_and_types.config that it was built with beside it, or ask on such a machine",
        )


def _try(library: Path, model: Path, context: BuildContext) -> dict[str, object]:
    """Answer of a process that loads and runs the model; how it ended when it was killed."""
    seconds = math.ceil(Allowance(model_bytes(model)).left)
    script = context.work_dir / "fits.py"
    script.write_text(_SCRIPT)
    output = context.work_dir / "fits.txt"
    # The shell keeps what was said before an abort: a build without exceptions ends the process.
    words: list[str | Path] = [
        sys.executable,
        "-I",
        script,
        library.absolute(),
        model.absolute(),
    ]
    died = ""
    try:
        within = f'ulimit -S -t {seconds}; out=$1; shift; exec "$@" > "$out"'
        context.run(["env", "-i", "sh", "-c", within, "sh", output, *words])
    except ToolError as error:
        died = error.message
        if died.startswith(f"env was ended by signal {signal.SIGXCPU.value}"):
            raise too_long(model.name) from error
    said: dict[str, object] = {}
    for line in output.read_text().splitlines():
        if line.startswith("{"):
            said.update(json.loads(line))
    if "foreign" in said or ("version" not in said and died):
        why = said.get("foreign", died.replace("env ", "the process that loads it ", 1))
        raise BundleError(f"{library.name} is not an ONNX Runtime that can be loaded here: {why}")
    return {**said, "died": died} if died else said


def _lacking(message: str) -> Name | None:
    if match := _NO_KERNEL.search(message):
        return match[1], int(match[2])
    if match := _NO_OPERATOR.search(message):
        return match[1], int(match[2])
    return None


def _prune(model: Path, trial: Path, missing: dict[Name, str], in_ort_format: bool) -> bool:
    if in_ort_format:
        return prune_ort(model, trial, missing.keys())
    return prune_onnx(model, trial, {name for name, _ in missing})


def _operators_by_name(model: Path) -> dict[Name, str]:
    def words(kernel: Operator) -> str:
        return f"{kernel.domain} {kernel.name} {kernel.since} {kernel.types}".rstrip()

    return {(kernel.name, kernel.since): words(kernel) for kernel in operators_of_ort_model(model).kernels}


def _reason(answer: dict[str, object], library: str, model: str, version: str, format_version: str) -> str:
    """Why a model does not run, in a sentence; empty when it does."""
    if "died" in answer:
        return f"ONNX Runtime {version} ends the process: {_last_line(str(answer['died']))}"
    if "failed" in answer:
        return f"{model} loads but does not run: {answer['failed']}"
    message = str(answer.get("refused", ""))
    if not message:
        return ""
    if _ORT_VERSION.search(message):
        return (
            f"{model} is in version {format_version} of the ORT format, which ONNX Runtime {version} does not read; "
            f"it is {_writers(format_version)}"
        )
    if found := _ONNX_VERSION.search(message):
        return (
            f"{model} is of ONNX IR version {found[1]}; ONNX Runtime {version} reads up to version {found[2]}"
        )
    if "ONNX format model is not supported" in message or "other than ORT format" in message:
        return f"{library} reads ORT format only (a minimal build), and {model} is in ONNX format"
    return f"ONNX Runtime {version} does not load {model}: {_last_line(message)}"


def _writers(format_version: str) -> str:
    return writers_of(int(format_version)) if format_version.isdigit() else "as no release writes it"


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no message")
