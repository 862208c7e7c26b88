"""The native runner for a model: the program, linked with just the runtime that the model needs, and its tokenizer."""

from __future__ import annotations

import hashlib
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.elf import floor_of
from edgepack.foundry.program import ProgramSources, build_program
from edgepack.models.tokenizer import minimal_json
from edgepack.records import Platform, PreparedModel, RunnerArtifact, RuntimeKind
from edgepack.runner.native.compile_tokenizer import compile_tokenizer
from edgepack.runner.native.sources import program_sources, source_files

KIND = "native"
PROGRAM = "embed"
TOKENIZER = "tokenizer.bin"
SCHEMA = "1"


def link_native_runner(
    model: PreparedModel,
    *,
    platform: Platform,
    kind: RuntimeKind = "minimal",
    sources: Path | None = None,
    glibc: str | None = None,
    context: BuildContext,
) -> RunnerArtifact:
    """The program ``embed`` with the model's operator kernels inside, and the model's tokenizer, compiled.

    Raises ``UnsupportedModelError`` naming the tokenizer's component that the program does not have, and what
    ``reduce_runtime`` raises.
    """
    tokenizer = compiled_tokenizer(minimal_json(model.source), context=context)
    made = build_program(
        ProgramSources(files=program_sources(), output=PROGRAM),
        model.needs,
        platform=platform,
        kind=kind,
        tree=sources,
        glibc=glibc,
        context=context,
    )
    folder = context.work_dir / "native-runner"
    folder.mkdir(exist_ok=True)
    program = folder / PROGRAM
    program.write_bytes((made / PROGRAM).read_bytes())
    program.chmod(0o755)
    context.note(f"native, {program.stat().st_size / 1e6:.2f} MB with the runtime inside")
    return RunnerArtifact(
        directory=folder,
        program=PROGRAM,
        kind=KIND,
        versions={"native": SCHEMA, "glibc_floor": floor_of(folder) or ""},
        tokenizer=tokenizer,
        holds_runtime=True,
    )


def compiled_tokenizer(text: str, *, context: BuildContext) -> Path:
    """The table file of a tokenizer.json, from the store."""
    import tokenizers

    digest = hashlib.sha256(text.encode())
    folder = context.store.cached(
        "tokenizer",
        {"document": digest.hexdigest(), "tokenizers": tokenizers.__version__, "by": _own_digest()},
        lambda made: _compile(text, made),
    )
    return folder / TOKENIZER


def _compile(text: str, folder: Path) -> None:
    (folder / TOKENIZER).write_bytes(compile_tokenizer(text))


def _own_digest() -> str:
    """Of what compiles tokenizers."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    digest.update(source_files()["table.h"].encode())
    return digest.hexdigest()
