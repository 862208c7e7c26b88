"""The proof of a bundle: its own files, run by its own program, once for each CPU feature level; libembed, too.

The golden vectors in the bundle were made by the stock ONNX Runtime of the very model file that ships. So what is compared
is what a device runs: this program, this library, this tokenizer.
"""

import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

from edgepack.bundles.golden import Embed, digest_of, read_golden
from edgepack.context import BuildContext
from edgepack.errors import BundleError, CannotRunHere, MissingToolError, ProofError, ToolError
from edgepack.files.elf import architecture, elf_files, needed_libraries
from edgepack.foundry.feature_levels import processor_flags
from edgepack.foundry.platform import LibrarySystem
from edgepack.foundry.proof.by_level import HERE, Attempt, Way, prove_levels, prove_way
from edgepack.foundry.proof.cpuid import replace_cpuid, replace_getauxval
from edgepack.foundry.proof.emulator import find_system
from edgepack.foundry.proof.harness import cpuid_hider, hiding, libembed_caller
from edgepack.foundry.proof.prove import QUANTIZED_TOLERANCE, TOLERANCE, nearness, require_near
from edgepack.models.ort.memory import limits_of_reading
from edgepack.plugins.checks import forms_of
from edgepack.records.bundle import Bundle
from edgepack.records.runtime import LevelProof, Levels
from edgepack.records.target import ModelOptions
from edgepack.verifier.command import host_program
from edgepack.verifier.copies import linked_copy
from edgepack.verifier.run import HEXADECIMAL

GLIBC = "libc.so.6"
"""Its loader knows LD_PRELOAD, and ``$ORIGIN`` in it. A program without it is static, or of another C library."""
HIDER = "libhidecpuid.so"
"""What answers in cpuid's place, beside the program: so LD_PRELOAD need not name a path, which may have no spaces."""


class Run(Protocol):
    """Vectors as a bundle's program makes them."""

    def __call__(
        self,
        bundle: Bundle,
        texts: Sequence[str],
        *,
        environment: Mapping[str, str],
        prefix: Sequence[str | Path],
    ) -> Sequence[Sequence[float]]:
        """Vectors of the texts, float [len(texts), dimension].

        The program's environment is that of all runs and ``environment``; its command line begins with ``prefix`` (an emulator and its
        arguments), or, where that is empty, with what this host needs for it.
        Raises ``ProofError`` or ``ToolError`` when the program fails, ``CannotRunHere`` when this host cannot run it.
        """


OTHER_BITS = (
    "its builder says that bits are the same on every processor: report it, with the processor's name"
)
Seal = Callable[[Bundle], None]
"""What is done to a copy in which files were exchanged, so that its program takes it for a bundle: signing, or nothing."""


def unsealed(copy: Bundle) -> None:
    """For programs that look at sizes alone."""


NOT_GOLDEN = "its `embed --self-test` would fail on every device; build it again"


@dataclass(frozen=True, kw_only=True)
class Known:
    """Expected answers of a bundle, where they are not its golden vectors."""

    texts: Sequence[str]
    vectors: Sequence[Sequence[float]]
    """Float [len(texts), dimension]."""
    tolerance: float
    """Lowest cosine."""
    digest: str = ""
    """SHA-256 of the vectors' bits, where every processor gives the same."""


def prove_bundle(
    bundle: Bundle,
    run: Run,
    *,
    levels: Levels,
    isa: Sequence[str] = (),
    seal: Seal = unsealed,
    known: Known | None = None,
    anyway: bool = False,
    context: BuildContext,
) -> tuple[LevelProof, ...]:
    """Let the bundle embed its golden texts, or those that are ``known``, as on each kind of processor: what was proved, by level.

    ``isa`` names the levels that its runtime has kernels for (empty: all), ``anyway`` is for a bundle that may have some and not say so. Raises ``ProofError`` naming level and cosine
    when vectors differ from the golden ones by more than the precision of the model allows, or when the program fails;
    ``MissingToolError`` when the program is for another architecture and there is no emulator. A level that nothing
    here can show is returned as not proved, with the reason.
    """
    known = known or _golden(bundle)
    attempt = _attempt_of(bundle, run, seal, known, context)
    runtime = bundle.manifest["runtime"] or {}
    arch = architecture(bundle.program)
    if provider := runtime.get("provider"):
        return (prove_way(attempt, Way(level=str(provider["name"]))),)
    if arch is None:
        # What no processor runs by itself, a script or a page, has the one level of what does run it.
        device = str(bundle.manifest["target"]["platform"]["arch"])
        level = HERE if device == platform.machine() else device
        try:
            system = find_system(bundle.system, bundle.program, context=context)
        except MissingToolError as error:
            return (LevelProof(level=level, proved=False, reason=error.message),)
        if system:
            command = tuple(system.command(device))
            under = Way(level=level, by=f"{system.name} {system.version}", emulation=command)
            proved = prove_way(attempt, under)
            library = bundle.manifest["runner"].get("library")
            if library and isinstance(system, LibrarySystem):
                called = _calling(bundle, library, system.library_caller(context=context), context)
                seal(called)
                proved = _lesser(proved, prove_way(_attempt_of(called, run, seal, known, context), under))
            return (proved,)
        return (prove_way(attempt, Way(level=level, by=_interpreter(bundle, context))),)
    if not (anyway or _says_levels(bundle)):
        by = HERE if arch == platform.machine() else f"an emulated {arch}"
        return (prove_way(attempt, Way(level=HERE, by=by)),)
    asked: Any = {"arch": arch, "isa": isa, "levels": levels, "context": context}
    proofs = prove_levels(attempt, name=bundle.name, **asked)
    if library := bundle.manifest["runner"].get("library"):
        called = _calling(bundle, library, libembed_caller(arch, context=context), context)
        seal(called)
        others = prove_levels(_attempt_of(called, run, seal, known, context), name=called.name, **asked)
        proofs = tuple(map(_lesser, proofs, others))
    return proofs


def _says_levels(bundle: Bundle) -> bool:
    """Whether it has kernels for several levels: those of ONNX Runtime, or the program's own."""
    runtime = bundle.manifest["runtime"] or {}
    return "name" not in runtime and bool(runtime or bundle.manifest["runner"].get("by_level"))


def _interpreter(bundle: Bundle, context: BuildContext) -> str:
    """The program of this host that the bundle's command begins with, and its version, e.g. ``node v20.19.0``."""
    runner = bundle.manifest["runner"]
    name = str((runner.get("command") or [runner["program"]])[0])
    if (bundle.directory / name).exists():
        return HERE
    try:
        said = context.run([host_program(bundle, name, trusted=True), "--version"]).partition("\n")[0]
    except (CannotRunHere, ToolError):
        return name
    return said if said.startswith(name) else f"{name} {said}"


def _lesser(*proofs: LevelProof) -> LevelProof:
    """Lower of two proofs of a level: what is said of a level is true of both."""
    return min(proofs, key=lambda proof: (proof.proved, proof.min_cosine))


def _attempt_of(bundle: Bundle, run: Run, seal: Seal, known: Known, context: BuildContext) -> Attempt:
    masked = cache(partial(masked_copy, bundle, seal, context))
    return partial(_attempt, _Proof(bundle=bundle, run=run, known=known, masked=masked))


@dataclass(frozen=True, kw_only=True)
class _Proof:
    """One bundle, and what it is to answer."""

    bundle: Bundle
    run: Run
    known: Known
    masked: Callable[[], Bundle]
    """The copy that does not ask the processor, made when it is wanted."""


def _golden(bundle: Bundle) -> Known:
    texts, vectors = read_golden(bundle)
    return Known(
        texts=texts,
        vectors=vectors,
        tolerance=TOLERANCE.get(str(bundle.manifest["model"]["precision"]), QUANTIZED_TOLERANCE),
        digest=bundle.manifest["model"].get("vectors_sha256", ""),
    )


def known_of(bundle: Bundle, embed: Embed, texts: Sequence[str], options: ModelOptions) -> Known:
    """Vectors of the texts that the bundle has to give however it is run."""
    vectors = embed(bundle, texts)
    exact = digest_of(vectors) if "vectors_sha256" in bundle.manifest["model"] else ""
    return Known(texts=texts, vectors=vectors, tolerance=options.min_processor_cosine, digest=exact)


def limits_while_read(bundle: Bundle) -> AbstractContextManager[None]:
    """Limits for what reads the bundle's files in this process. Where they are passed, ``ModelError`` is raised, or the process ended."""
    return limits_of_reading(bundle.name, sum(int(file["size"]) for file in bundle.manifest["files"]))


def require_other_forms(
    bundle: Bundle, embed: Embed, texts: Sequence[str], options: ModelOptions, context: BuildContext
) -> None:
    """Run what other devices than this host take of the bundle, on the texts. Raises ``ProofError`` where a form fails or gives other vectors."""
    with limits_while_read(bundle):
        forms = forms_of(bundle, context=context)
    known = known_of(bundle, embed, texts, options) if forms else None
    for name, files in forms.items():
        assert known is not None
        copy = replace(bundle, directory=linked_copy(bundle, "form-", context=context))
        for path, content in files.items():
            (copy.directory / path).unlink()
            (copy.directory / path).write_bytes(content)
        where = f"{bundle.name} ({name})"
        try:
            vectors = embed(copy, known.texts)
        except ProofError as error:
            raise ProofError(f"{where} does not run: {error.message}", hint=error.hint) from error
        require_known(bundle, known, vectors, where=where)
        context.note(f"the same vectors {name}")


def require_golden(bundle: Bundle, embed: Embed) -> None:
    """Raise ``BundleError`` unless the program here gives about the golden vectors, by which devices test themselves, and ``ProofError`` unless
    they have the bits whose digest the manifest has.

    Nothing is asked where this host cannot run it: nothing was verified then, and the gate has said so.
    """
    known = _golden(bundle)
    try:
        vectors = embed(bundle, known.texts)
    except CannotRunHere:
        return
    made = digest_of(vectors)
    if not made or ("vectors_sha256" in bundle.manifest["model"] and made != known.digest):
        raise ProofError(
            f"{bundle.name} gives vectors of other bits here than its manifest's digest says", hint=OTHER_BITS
        )
    try:
        cosine = nearness(vectors, known.vectors, known.texts)
    except (ValueError, ArithmeticError) as error:  # also of zeros, which have no angle
        raise BundleError(f"the golden vectors of {bundle.name}: {error}", hint=NOT_GOLDEN) from error
    if not cosine >= known.tolerance:
        raise BundleError(
            f"the golden vectors of {bundle.name} are not those that its program gives: cosine {cosine:.5f}",
            hint=NOT_GOLDEN,
        )


def _attempt(proof: _Proof, way: Way) -> float:
    """The lowest cosine to the golden vectors. Raises ``ProofError`` and ``CannotRunHere``."""
    bundle = proof.bundle
    _require_processor(bundle)
    asked = proof.masked() if way.hidden else bundle
    environment = masking(way.hidden) if way.hidden else {}
    level = way.level if way.level == way.by else f"level {way.level}, {way.by}"
    where = f"{bundle.name} ({level})"
    try:
        vectors = proof.run(asked, proof.known.texts, environment=environment, prefix=way.emulation)
    except (ProofError, ToolError) as error:
        raise ProofError(f"{where} does not run: {error.message}", hint=error.hint) from error
    return require_known(bundle, proof.known, vectors, where=where)


def require_known(bundle: Bundle, known: Known, vectors: Sequence[Sequence[float]], *, where: str) -> float:
    """The lowest cosine of vectors to those that are known. Raises ``ProofError`` where they are not near, or of other bits where these say so."""
    if known.digest and digest_of(vectors) != known.digest:
        raise ProofError(
            f"{where} gives vectors of other bits than the manifest's digest says", hint=OTHER_BITS
        )
    return require_near(
        vectors,
        known.vectors,
        tolerance=known.tolerance,
        what=str(bundle.manifest["model"]["file"]),
        where=where,
        texts=known.texts,
    )


def _require_processor(bundle: Bundle) -> None:
    """The program looks into /proc/cpuinfo, and that is this processor's, limited or emulated as another of its kind."""
    if architecture(bundle.program) != platform.machine() or not (has := processor_flags()):
        return
    if lacking := sorted(set((bundle.manifest["runtime"] or {}).get("requires", ())) - has):
        raise CannotRunHere(f"the bundle is for processors with {', '.join(lacking)}, which this one lacks")


def masking(hidden: tuple[int, ...]) -> dict[str, str]:
    """The environment of a masked copy, as a processor that has less."""
    return {"LD_PRELOAD": f"$ORIGIN/{HIDER}", **hiding(hidden)}


def masked_copy(bundle: Bundle, seal: Seal, context: BuildContext) -> Bundle:
    """The bundle with kernels that do not ask the processor, and with what answers beside the program.

    The programs look at sizes when they start, and those stay; the kernels may lie in the program itself. Raises
    ``CannotRunHere`` where nothing can be loaded into the program.
    """
    if GLIBC not in needed_libraries(bundle.program):
        raise CannotRunHere(
            f"what the processor has cannot be hidden from {bundle.program.name}: it does not load glibc"
        )
    folder = linked_copy(bundle, "masked-", context=context)
    name = str(bundle.manifest["runner"]["program"])
    asking = str((bundle.manifest["runtime"] or {"library": name})["library"])
    (folder / asking).unlink()
    arch = str(architecture(bundle.program))
    mask = replace_getauxval if arch == "aarch64" else replace_cpuid
    try:
        mask(bundle.directory / asking, folder / asking)
    except ProofError as error:
        if _says_levels(bundle):
            raise
        raise CannotRunHere(error.message) from error
    program = folder / name
    if asking != name:
        with suppress(ProofError):  # most programs leave that to the runtime
            program.unlink()
            shutil.copy(bundle.directory / name, program)
            mask(bundle.directory / name, program)
    # What is there is the bundle's own file, of which this is a name more.
    (hider := program.with_name(HIDER)).unlink(missing_ok=True)
    shutil.copyfile(cpuid_hider(arch, context=context), hider)
    copy = replace(bundle, directory=folder)
    seal(copy)
    return copy


def not_hidden(bundle: Bundle) -> tuple[str, ...]:
    """In words, the compiled files that ask the processor itself what it has, also where it is hidden from the program and its runtime."""
    program = str(bundle.manifest["runner"]["program"])
    runtime = bundle.manifest["runtime"] or {"library": program}
    found = {path.relative_to(bundle.directory).as_posix() for path in elf_files(bundle.directory)}
    left = found - {program, str(runtime["library"])}
    return (f"other CPU levels of {len(left)} compiled files beside its program",) if left else ()


def _calling(bundle: Bundle, library: str, caller: Path, context: BuildContext) -> Bundle:
    """A copy whose program makes its vectors by the library, which has the runtime in it where the program has."""
    runner = bundle.manifest["runner"]
    runtime = bundle.manifest["runtime"] or {"library": runner["program"]}
    inside = runtime["library"] == runner["program"]
    folder = linked_copy(bundle, "calling-", context=context)
    (folder / caller.name).unlink(missing_ok=True)
    shutil.copy(caller, folder / caller.name)
    manifest = {
        **bundle.manifest,
        "name": f"{bundle.name}/{library}",
        "runtime": {**runtime, "library": library} if inside else runtime,
        "runner": {"program": caller.name, "command": [caller.name, library], "lines": HEXADECIMAL},
    }
    return Bundle(directory=folder, manifest=manifest)
