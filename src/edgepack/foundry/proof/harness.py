"""The proof's own code, compiled for the platform of what is proved: it runs where Python does not."""

from importlib import resources
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.files.store import key_of
from edgepack.foundry.toolchain import NativeToolchain
from edgepack.foundry.toolchains.choose import DEFAULT_GLIBC, choose
from edgepack.records.target import Platform

HEADER = "hide_cpuid.h"


def prover(arch: str, *, context: BuildContext) -> Path:
    """The program that runs a model on a library, from the store. Raises ``MissingToolError`` or ``ToolError``."""
    return _compiled("prove.c", "prove", ["-ldl"], arch, context)


def libembed_caller(arch: str, *, context: BuildContext) -> Path:
    """The program that makes a bundle's vectors by its libembed, from the store. Raises as ``prover``."""
    return _compiled("call_libembed.c", "call-libembed", ["-ldl"], arch, context)


def cpuid_hider(arch: str = "x86_64", *, context: BuildContext) -> Path:
    """The library to be loaded first (``LD_PRELOAD``) into a program that does not ask the processor itself (``cpuid.py``).

    From the store, too. Raises ``MissingToolError`` or ``ToolError``.
    """
    return _compiled("hide_cpuid.c", "libhidecpuid.so", ["-shared", "-fPIC"], arch, context)


def hiding(bits: tuple[int, ...]) -> dict[str, str]:
    """Environment that tells the program, or the library in it, which bits of a processor to hide."""
    return {"PROVE_HIDDEN": " ".join(f"{register:x}" for register in bits)} if bits else {}


def _compiled(source: str, output: str, flags: list[str], arch: str, context: BuildContext) -> Path:
    toolchain = choose(Platform(os="linux", arch=arch, glibc=DEFAULT_GLIBC), context=context)
    data = resources.files("edgepack.foundry.proof") / "data"
    texts = {name: (data / name).read_text(encoding="utf-8") for name in (source, HEADER)}
    folder = context.store.cached(
        "prover",
        {"source": key_of(texts), "flags": " ".join(flags), "toolchain": toolchain.identity},
        lambda made: _compile(texts, source, flags, made / output, toolchain, context),
    )
    return folder / output


def _compile(
    texts: dict[str, str],
    source: str,
    flags: list[str],
    output: Path,
    toolchain: NativeToolchain,
    context: BuildContext,
) -> None:
    work = context.work_dir / f"{output.name}-{toolchain.arch}"
    work.mkdir(exist_ok=True)
    for name, text in texts.items():
        (work / name).write_text(text, encoding="utf-8")
    context.run(
        [*toolchain.driver("C"), "-O1", "-s", source, "-o", output.name, *flags],
        cwd=work,
        env=toolchain.environment(work / "cache"),
        log_file=work / "compile.log",
    )
    output.write_bytes((work / output.name).read_bytes())
    output.chmod(0o755)
