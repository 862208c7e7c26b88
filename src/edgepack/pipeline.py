"""The whole flow of a build, one line a step."""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from edgepack.bundles.archive import archive_of, pack
from edgepack.bundles.assemble import assemble
from edgepack.bundles.golden import with_exact_vectors
from edgepack.bundles.manifest import bundle_name, open_bundle
from edgepack.bundles.packages import Packagers, make_packages, packagers_of, require_unchanged
from edgepack.bundles.place import (
    held_place,
    placed_beside,
    placed_folder,
    require_free,
    require_writable,
)
from edgepack.bundles.provenance import dependencies_of, provenance_file, statement
from edgepack.bundles.room import require_room
from edgepack.errors import (
    BundleError,
    MissingToolError,
    PluginError,
    TargetError,
    UsageError,
    VerificationError,
)
from edgepack.files.store import sha256_of
from edgepack.models.find.source import ingest, name_of
from edgepack.models.inspection import TABLE_TARGETS
from edgepack.models.read.static import is_static_source
from edgepack.operators.fit import OPERATORS
from edgepack.plugins.blame import blamed_on
from edgepack.plugins.builder import RegisteredBuilder
from edgepack.plugins.checks import require_fit
from edgepack.plugins.context import HostContext
from edgepack.plugins.given import given_by_target
from edgepack.plugins.host import PluginHost
from edgepack.recipes.expected import Expected, expected
from edgepack.recipes.registry import passes_for, passes_of, whose_passes
from edgepack.records.bundle import Bundle, RunnerArtifact
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.report import Memory, PackageSize, Report, Verification
from edgepack.records.runtime import LevelProof, RuntimeArtifact
from edgepack.records.target import Target
from edgepack.reports.budget import foretell_budget, foretell_from_weights, require_budget
from edgepack.reports.cost import Prices, prices_of
from edgepack.reports.made import made_now
from edgepack.reports.measure import NO_RUNTIME, measure, unmatched, weigh
from edgepack.reports.sections import with_sections
from edgepack.reports.text import as_record
from edgepack.signing.keys import PrivateKey, load_public
from edgepack.signing.signatures import sign_bundle, sign_copy, sign_file, signature_of
from edgepack.tools import install_hint
from edgepack.verifier.confined.module_process import text_module
from edgepack.verifier.copies import require_used_files, with_program
from edgepack.verifier.facts import require_facts, require_precision
from edgepack.verifier.gate import require_oracle, verify
from edgepack.verifier.made_here import remember
from edgepack.verifier.memory import measure_memory
from edgepack.verifier.proofs import prove_bundle, unsealed
from edgepack.verifier.run import BundleRunner

STEPS = 8
"""Of a build."""
FETCHED = {"addresses", "downloads", "from-store", "hub", "made-here", "models", "sources", "wheels"}
"""Kinds of what a cache may hold and nothing was made with tools yet."""
COMPILED = 500_000_000
"""Bytes that the first build adds to a cache beside the model: ONNX Runtime's sources and what is compiled of them."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a build made."""

    bundle: Bundle
    report: Report
    report_file: Path


def build(
    target: Target,
    *,
    model: str | None,
    output: Path,
    force: bool = False,
    prices: Path | None = None,
    key: PrivateKey | None = None,
    host: PluginHost,
    context: HostContext,
) -> Outcome:
    """Make, verify and measure one bundle; it appears in ``output`` when all of that went well, or not at all.

    With ``key`` it is signed, and so are its archive and packages, which hold the bundle's signature.
    """
    story = context.story
    story.plan(STEPS)
    for unread in host.unread_tables(target):
        context.warn(f"target {target.name}: {unread} belongs to no installed plugin")
    _require_key(target, key)
    packagers = packagers_of(target, context)
    table = prices_of(prices, context)
    registered = host.builder_of(target)
    builder = registered.create(target, context)
    for options in (target.model, target.model.for_scores()):
        passes_of(options.recipe, context)  # refuses unknown ones before a model is fetched
    _require_module(target, context)
    _require_tools(registered.missing(target), context)
    _require_place(output, model, target, force=force)
    require_room(output=output, cache=context.store.root)
    with story.step("model"):
        source = ingest(model, reading=target.model.reading, context=context)
        source = given_by_target(source, builder.gives, target.name, context=context)
        passes = passes_for(source, target.model, context)
        foretold = expected(source, passes)
        foretell_from_weights(target, foretold)
        _require_room(foretold, output, len(packagers), context)
        _advise_on_static(source, target, context)
    destination = output / bundle_name(source.name, target)
    require_free(destination, force=force)
    with story.step("prepare"):
        prepared = builder.prepare_model(source)
        foretell_budget(target, prepared.file)
        if prepared.oracle is not None:
            _require_oracle(prepared, source, target, registered, context)
    with story.step("runtime"):
        runtime = builder.provide_runtime(prepared)
        checks = require_fit(prepared, runtime, target, context=context)
        if OPERATORS not in checks:
            context.note(NO_RUNTIME if runtime is None else unmatched(prepared.format))
            # What was not held against the model is not claimed.
            runtime = runtime and replace(runtime, provides=None)
    with story.step("runner"):
        runner = builder.make_runner(prepared, runtime)
        source = _with_module(source, target, runner, context)
    # Archive and report go to their places after the folder: whatever a kill leaves there, none is beside another bundle's.
    with (
        held_place(destination, waiting=partial(_tell_of_another, destination, context)),
        ExitStack() as beside,
        placed_folder(destination, force=force) as folder,
    ):
        with story.step("bundle"), registered.to_blame_for_its_parts():
            bundle = assemble(
                target=target,
                model=prepared,
                runtime=runtime,
                runner=runner,
                made_by={**registered.made_by(target), **whose_passes(passes, context)},
                checks=checks,
                source=source,
                folder=folder,
                context=context,
            )
            run = BundleRunner(context=context, trusted=True)
            if runner.exact:
                makes = with_program(bundle, runner.twin, context=context) if runner.twin else bundle
                bundle = with_exact_vectors(bundle, makes, run.embed)
            if key is not None:
                # Before anything else runs: a program may refuse to work without it.
                sign_bundle(bundle, key)
        with story.step("prove"), registered.named():
            proofs = _prove(bundle, run, runtime, key, context)
        with story.step("verify"), registered.named():
            require_facts(bundle, source)
            verification = verify(
                bundle,
                source,
                run.embed,
                options=target.model,
                tokens=run.tokens,
                scoring=run,
                giving=run,
                prompted=run.prompted,
                proofs=proofs,
                context=context,
            )
            require_precision(bundle, verification)
            require_used_files(bundle, run.embed, context=context)
            run.require_server(bundle)
            memory = measure_memory(bundle, target, runner=run, context=context)
            _require_untouched(bundle)
        with story.step("pack"):
            made_from = dependencies_of(source, runtime)
            outcome = _pack_and_report(
                bundle,
                packagers,
                verification,
                proofs,
                memory,
                made_from,
                destination,
                target,
                table,
                beside,
                context,
            )
        if force:
            withdraw((outcome.report_file, *_sent(outcome)))
    if key is not None:
        _sign_what_is_sent(outcome, key)
    remember(outcome.report.digest, report=sha256_of(outcome.report_file), store=context.store)
    for plugin, tell in host.told_when_written():
        with _unchanged_by(plugin, outcome):
            tell(outcome.bundle, outcome.report)
    return outcome


def _require_tools(tools: Sequence[str], context: HostContext) -> None:
    """Raise ``MissingToolError`` where nothing can be made without them; where all of it may be in the cache, only warn."""
    if not tools:
        return
    missing, hint = f"not installed: {', '.join(tools)}", "; ".join(dict.fromkeys(map(install_hint, tools)))
    if not set(context.store.kinds()) - FETCHED:
        raise MissingToolError(missing, hint=hint)
    context.warn(f"{missing}; without them, only what is in the cache can be used ({hint})")


def _require_module(target: Target, context: HostContext) -> None:
    """Raise ``TargetError`` for a module that cannot be loaded, before anything is made for it."""
    if target.module is None:
        return
    if not target.module.is_file():
        raise TargetError(f"target {target.name}: runner.module: there is no file {target.module}")
    try:
        text_module(target.module, context=context)
    except VerificationError as error:
        raise TargetError(f"target {target.name}: runner.module: {error.message}", hint=error.hint) from error


def _with_module(
    source: ModelSource, target: Target, runner: RunnerArtifact, context: HostContext
) -> ModelSource:
    """The model as it is judged: with what the program has around it. Raises ``TargetError`` for a program that runs no module."""
    if target.module is None:
        return source
    if runner.module is None:
        raise TargetError(
            f"target {target.name}: its program has no Python, which runner.module asks for",
            hint="take a target with the frozen runner, such as linux-x86, or leave the module out",
        )
    return replace(source, module=text_module(runner.directory / runner.module, context=context))


def _require_place(output: Path, model: str | None, target: Target, *, force: bool) -> None:
    """Raise ``OutputError`` for a place that cannot be written, or is taken where the model's name is known already."""
    require_writable(output)
    if (name := name_of(model)) is not None:
        require_free(output / bundle_name(name, target), force=force)


def _require_room(foretold: Expected | None, output: Path, packages: int, context: HostContext) -> None:
    """Raise ``DiskFullError`` for what certainly does not fit: all but the folder and its archives may be in the cache."""
    if foretold is None:
        return
    first = not set(context.store.kinds()) - FETCHED
    require_room(
        output=output,
        cache=context.store.root,
        made=foretold.made,
        archives=foretold.least * (1 + packages),
        cached=COMPILED + foretold.full + foretold.made if first else 0,
    )


def _advise_on_static(source: ModelSource, target: Target, context: HostContext) -> None:
    """As a graph it works, too, with a runtime that it does without."""
    if is_static_source(source) and target.model.format != "table":
        context.warn(
            f"{source.name} is a static model: --target {' or '.join(TABLE_TARGETS)} ships its table without ONNX Runtime"
        )


def _tell_of_another(destination: Path, context: HostContext) -> None:
    context.warn(f"another build is putting {destination} in its place: waiting until it is done")


def _require_key(target: Target, key: PrivateKey | None) -> None:
    """A program that refuses unsigned bundles cannot be verified without a signature. Raises ``UsageError``."""
    wanted = target.options.get("require_signature")
    if wanted and (key is None or key.public != load_public(Path(str(wanted)))):
        raise UsageError(
            f"target {target.name}: require_signature = {str(wanted)!r}: its program refuses bundles that are not signed with that key",
            hint="--sign names the private key that belongs to it",
        )


def _prove(
    bundle: Bundle,
    run: BundleRunner,
    runtime: RuntimeArtifact | None,
    key: PrivateKey | None,
    context: HostContext,
) -> tuple[LevelProof, ...]:
    """The bundle's own files, as on each kind of processor that its runtime has kernels for."""
    levels, isa = ("here", ()) if runtime is None else (runtime.levels, runtime.isa)
    seal = unsealed if key is None else partial(sign_copy, key=key)
    proofs = prove_bundle(bundle, run.at, levels=levels, isa=isa, seal=seal, context=context)
    if proofs:
        proved = sum(proof.proved for proof in proofs)
        context.note(f"{proved} of {len(proofs)} CPU levels proved")
    return proofs


def _require_oracle(
    model: PreparedModel,
    source: ModelSource,
    target: Target,
    registered: RegisteredBuilder,
    context: HostContext,
) -> None:
    """Whatever is wrong with it is the fault of who named it."""
    with (
        registered.to_blame_for_its_parts("no oracle"),
        blamed_on(registered.plugin, "prepare_model's oracle"),
    ):
        require_oracle(model, source, options=target.model, context=context)


def _require_untouched(bundle: Bundle) -> None:
    """What ran must still be what was assembled: a program that changes its bundle is not shipped."""
    try:
        open_bundle(bundle.directory)
    except BundleError as error:
        raise VerificationError(
            f"the program changed its bundle while it ran: {error.message}",
            hint="the folder may be read-only on devices; the runner must write elsewhere or not at all",
        ) from error


@contextmanager
def _unchanged_by(plugin: str, outcome: Outcome) -> Iterator[None]:
    """What a plugin is told of is still what was verified, or no longer has its name. Raises ``PluginError``."""
    before = {file: sha256_of(file) for file in (outcome.report_file, *_sent(outcome))}
    try:
        yield
    finally:
        changed = [file for file, digest in before.items() if file.is_file() and sha256_of(file) != digest]
        words = f"{changed[0].name} is another file now" if changed else ""
        try:
            require_unchanged(outcome.bundle, plugin, "edgepack_bundle_written")
        except PluginError as error:
            changed.append(outcome.bundle.directory)
            words = error.message.partition("edgepack_bundle_written: ")[2]
        if changed:
            aside = ", ".join(path.name for path in _set_aside(changed, plugin)) or "nothing"
            raise PluginError(
                f"plugin {plugin} changed the bundle in edgepack_bundle_written: {words}",
                hint=f"do not ship it (it is now {aside}): build it again without that plugin (EDGEPACK_DISABLE_PLUGINS)",
            )


def _set_aside(changed: Sequence[Path], plugin: str) -> Iterator[Path]:
    """What was changed, under names that say so: nobody takes it for what was verified."""
    for path in changed:
        names = (path.with_name(f"{path.name}.changed-by-{plugin}{at or ''}") for at in count())
        aside = next(name for name in names if not os.path.lexists(name))
        if os.path.lexists(path):
            path.rename(aside)
            yield aside


def report_file_of(directory: Path) -> Path:
    """Where a bundle's report lies: beside the bundle, so that it is no part of what devices get."""
    return directory.with_name(directory.name + ".report.json")


def withdraw(files: Iterable[Path]) -> None:
    """Remove what lies beside the bundle that is about to be replaced."""
    for path in files:
        path.unlink(missing_ok=True)
        signature_of(path).unlink(missing_ok=True)


def _sent(outcome: Outcome) -> list[Path]:
    """Archive, packages, and what says where they come from."""
    archive = archive_of(outcome.bundle.directory)
    return [
        archive,
        provenance_file(outcome.bundle.directory),
        *(archive.with_name(package.file) for package in outcome.report.packages),
    ]


def _sign_what_is_sent(outcome: Outcome, key: PrivateKey) -> None:
    for file in (*_sent(outcome), outcome.report_file):
        sign_file(file, key)


def _pack_and_report(
    bundle: Bundle,
    packagers: Packagers,
    verification: Verification,
    proofs: tuple[LevelProof, ...],
    memory: Memory | None,
    dependencies: Sequence[Mapping[str, Any]],
    destination: Path,
    target: Target,
    prices: Prices,
    beside: ExitStack,
    context: HostContext,
) -> Outcome:
    """Archive, packages, provenance and report, which ``beside`` puts in their places when it ends well."""
    # Weighed first: large files, whose frames the archive has too, are compressed beside what other encoders make of them.
    sizes = weigh(bundle, context=context)
    packed = pack(bundle, beside.enter_context(placed_beside(archive_of(destination))), context=context)
    packages, subjects = [], {archive_of(destination).name: packed.archive or destination}
    for package in make_packages(bundle, packagers, context=context):
        file = destination.with_name(package.file.name)
        subjects[file.name] = Path(shutil.move(package.file, beside.enter_context(placed_beside(file))))
        packages.append(PackageSize(form=package.form, file=file.name, size=package.size))
    report = measure(packed, verification, sizes=sizes, packages=packages, prices=prices)
    report = replace(report, proofs=proofs, made=made_now(target), memory=memory)
    require_budget(target, report)
    report = with_sections(packed, report, context=context)
    said = statement(packed, target, subjects=subjects, dependencies=dependencies)
    temporary = beside.enter_context(placed_beside(provenance_file(destination)))
    temporary.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    report_file = report_file_of(destination)
    temporary = beside.enter_context(placed_beside(report_file))
    temporary.write_text(json.dumps(as_record(report), indent=2) + "\n", encoding="utf-8")
    context.note(f"{destination}/ and .tar.zst")
    return Outcome(
        bundle=replace(packed, directory=destination, archive=archive_of(destination)),
        report=report,
        report_file=report_file,
    )
