"""The proof's own program, compiled for the library's platform: it runs where the runner's Python does not."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.files.store import key_of
from edgepack.foundry.toolchains.choose import DEFAULT_GLIBC, choose, compiler, zig_environment
from edgepack.records.target import Platform

PROGRAM = "prove"


def prover(arch: str, *, context: BuildContext) -> Path:
    """The program for an architecture, from the store. Raises ``MissingToolError`` or ``ToolError``."""
    toolchain = choose(Platform(os="linux", arch=arch, glibc=DEFAULT_GLIBC), context=context)
    source = (resources.files("edgepack.foundry.proof") / "data" / f"{PROGRAM}.c").read_text(encoding="utf-8")
    folder = context.store.cached(
        "prover",
        {"source": key_of({"text": source}), "toolchain": toolchain.identity},
        lambda made: _compile(source, arch, made, context),
    )
    return folder / PROGRAM


def _compile(source: str, arch: str, folder: Path, context: BuildContext) -> None:
    toolchain = choose(Platform(os="linux", arch=arch, glibc=DEFAULT_GLIBC), context=context)
    work = context.work_dir / f"prover-{arch}"
    work.mkdir(exist_ok=True)
    (work / f"{PROGRAM}.c").write_text(source, encoding="utf-8")
    command: list[str | Path] = [*compiler(toolchain, "C")]
    if toolchain.family == "zig":
        command = [toolchain.program, "cc", "-target", f"{arch}-linux-gnu.{toolchain.glibc}"]
    context.run(
        [*command, "-O1", "-s", f"{PROGRAM}.c", "-o", PROGRAM, "-ldl"],
        cwd=work,
        env=zig_environment(work / "cache"),
        log_file=work / "compile.log",
    )
    (folder / PROGRAM).write_bytes((work / PROGRAM).read_bytes())
    (folder / PROGRAM).chmod(0o755)
