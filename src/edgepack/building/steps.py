"""What a build makes of an order, part by part."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from edgepack.building.order import Order
from edgepack.building.outcome import Outcome, report_file_of, require_no_other, require_own, withdrawn
from edgepack.bundles.archive import archive_of, pack
from edgepack.bundles.assemble import assemble
from edgepack.bundles.golden import with_exact_vectors
from edgepack.bundles.manifest import open_bundle
from edgepack.bundles.packages import make_packages
from edgepack.bundles.place import held_place, placed_beside, placed_folder
from edgepack.bundles.provenance import dependencies_of, provenance_file, statement
from edgepack.device.speed import speed_here
from edgepack.errors import BundleError, TargetError, VerificationError
from edgepack.files.store import require_unchanged
from edgepack.models.export.source_key import digests_of
from edgepack.operators.fit import OPERATORS
from edgepack.plugins.blame import blamed_on
from edgepack.plugins.checks import require_fit
from edgepack.recipes.registry import passes_for, whose_passes
from edgepack.records.bundle import Bundle, RunnerArtifact
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.report import Memory, PackageSize, Speed, Verification
from edgepack.records.runtime import LevelProof, RuntimeArtifact
from edgepack.reports.budget import foretell_budget, require_budget
from edgepack.reports.build_info import made_now
from edgepack.reports.measure import NO_RUNTIME, measure, unmatched, weigh
from edgepack.reports.sections import with_sections
from edgepack.reports.text import as_record
from edgepack.signing.signatures import sign_bundle, sign_copy
from edgepack.verifier.confined.module_process import text_module
from edgepack.verifier.copies import require_used_files, with_program
from edgepack.verifier.facts import require_facts, require_precision
from edgepack.verifier.gate import require_oracle, verify
from edgepack.verifier.memory import measure_memory
from edgepack.verifier.proofs import prove_bundle, unsealed
from edgepack.verifier.run import BundleRunner


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Parts of a bundle: what the builder made, and what the host found of it."""

    source: ModelSource
    model: PreparedModel
    runtime: RuntimeArtifact | None
    checks: tuple[str, ...]
    """Names of those that found that model and runtime fit."""
    runner: RunnerArtifact


@dataclass(frozen=True, kw_only=True)
class Verified:
    """A bundle, and what was measured of it."""

    bundle: Bundle
    proofs: tuple[LevelProof, ...]
    figures: Verification
    memory: Memory | None
    speed: Speed | None


@contextmanager
def claimed(order: Order, destination: Path) -> Iterator[tuple[Path, ExitStack]]:
    """A folder that becomes the destination, and what lies beside it, when all goes well; meanwhile no other build puts one there."""
    waiting = f"another build is putting {destination} in its place: waiting until it is done"
    # Archive and report go to their places after the folder: whatever a kill leaves there, none is beside another bundle's.
    with (
        held_place(destination, waiting=partial(order.context.warn, waiting)),
        ExitStack() as beside,
        placed_folder(destination, force=order.force) as folder,
    ):
        yield folder, beside


def prepare(order: Order, source: ModelSource) -> PreparedModel:
    """The model as it ships. Raises ``ModelError`` for an oracle that is none, and what foretells that the bundle is too large."""
    prepared = order.builder.prepare_model(source)
    foretell_budget(order.target, prepared.file)
    if prepared.oracle is not None:
        # Whatever is wrong with it is the fault of who named it.
        named = blamed_on(order.registered.plugin, "prepare_model's oracle")
        with order.registered.to_blame_for_its_parts("no oracle"), named:
            require_oracle(prepared, source, options=order.target.model, context=order.context)
    return prepared


def provide(order: Order, model: PreparedModel) -> tuple[RuntimeArtifact | None, tuple[str, ...]]:
    """The runtime, and the checks that found that it fits the model."""
    runtime = order.builder.provide_runtime(model)
    checks = require_fit(model, runtime, order.target, context=order.context)
    if OPERATORS not in checks:
        order.context.note(NO_RUNTIME if runtime is None else unmatched(model.format))
        # What was not held against the model is not claimed.
        runtime = runtime and replace(runtime, provides=None)
    return runtime, checks


def with_module(order: Order, source: ModelSource, runner: RunnerArtifact) -> ModelSource:
    """The model as it is judged: with what the program has around it. Raises ``TargetError`` for a program that runs no module."""
    if order.target.module is None:
        return source
    if runner.module is None:
        raise TargetError(
            f"target {order.target.name}: its program has no Python, which runner.module asks for",
            hint="take a target with the frozen runner, such as linux-x86, or leave the module out",
        )
    return replace(source, module=text_module(runner.directory / runner.module, context=order.context))


def lay_out(order: Order, parts: Parts, run: BundleRunner, folder: Path) -> Bundle:
    """The bundle in its folder, signed where the order has a key."""
    passes = passes_for(parts.source, order.target.model, order.context)
    bundle = assemble(
        target=order.target,
        model=parts.model,
        runtime=parts.runtime,
        runner=parts.runner,
        made_by={**order.registered.made_by(order.target), **whose_passes(passes, order.context)},
        checks=parts.checks,
        source=parts.source,
        folder=folder,
        context=order.context,
    )
    require_unchanged(order.files)
    if parts.runner.exact:
        twin = parts.runner.twin
        makes = with_program(bundle, twin, context=order.context) if twin else bundle
        bundle = with_exact_vectors(bundle, makes, run.embed)
    if order.key is not None:
        # Before anything else runs: a program may refuse to work without it.
        sign_bundle(bundle, order.key)
    return bundle


def prove(
    order: Order, bundle: Bundle, runtime: RuntimeArtifact | None, run: BundleRunner
) -> tuple[LevelProof, ...]:
    """The bundle's own files, as on each kind of processor that its runtime has kernels for."""
    levels, isa = ("here", ()) if runtime is None else (runtime.levels, runtime.isa)
    seal = unsealed if order.key is None else partial(sign_copy, key=order.key)
    proofs = prove_bundle(bundle, run.at, levels=levels, isa=isa, seal=seal, context=order.context)
    if proofs:
        proved = sum(proof.proved for proof in proofs)
        order.context.note(f"{proved} of {len(proofs)} CPU levels proved")
    return proofs


def judge(
    order: Order,
    bundle: Bundle,
    source: ModelSource,
    prepared: PreparedModel,
    proofs: tuple[LevelProof, ...],
    run: BundleRunner,
) -> Verified:
    """The bundle, run and compared with its model; and no byte of it is another afterwards. Raises ``VerificationError``."""
    require_facts(bundle, source)
    figures = verify(
        bundle,
        source,
        run.embed,
        options=order.target.model,
        program=run,
        shipped=prepared.source,
        proofs=proofs,
        context=order.context,
    )
    require_precision(bundle, figures)
    require_used_files(bundle, run.embed, context=order.context)
    run.require_server(bundle)
    memory = measure_memory(bundle, order.target, runner=run, context=order.context)
    speed = speed_here(bundle, run) if order.bench else None
    _require_untouched(bundle)
    require_unchanged(digests_of(source))
    return Verified(bundle=bundle, proofs=proofs, figures=figures, memory=memory, speed=speed)


def _require_untouched(bundle: Bundle) -> None:
    """Check that the bundle is still as it was assembled: a program that changes its bundle is not shipped."""
    try:
        open_bundle(bundle.directory)
    except BundleError as error:
        raise VerificationError(
            f"the program changed its bundle while it ran: {error.message}",
            hint="the folder may be read-only on devices; the runner must write elsewhere or not at all",
        ) from error


def pack_up(
    order: Order,
    parts: Parts,
    found: Verified,
    destination: Path,
    beside: ExitStack,
    may_replace: Callable[[Sequence[Path]], None],
) -> Outcome:
    """Archive, packages, provenance and report, which ``beside`` puts in their places when it ends well."""
    target, context = order.target, order.context
    # Weighed first: large files, whose frames the archive has too, are compressed beside what other encoders make of them.
    sizes = weigh(found.bundle, context=context)
    packed = pack(found.bundle, beside.enter_context(placed_beside(archive_of(destination))), context=context)
    packages, subjects = [], {archive_of(destination).name: packed.archive or destination}
    for package in make_packages(found.bundle, order.packagers, context=context):
        file = destination.with_name(package.file.name)
        require_no_other([file], force=order.force)
        subjects[file.name] = Path(shutil.move(package.file, beside.enter_context(placed_beside(file))))
        packages.append(PackageSize(form=package.form, file=file.name, size=package.size))
    report = measure(packed, found.figures, sizes=sizes, packages=packages, prices=order.prices)
    report = replace(
        report, proofs=found.proofs, made=made_now(target), memory=found.memory, speed=found.speed
    )
    require_budget(target, report)
    report = with_sections(packed, report, context=context)
    said = statement(
        packed, target, subjects=subjects, dependencies=dependencies_of(parts.source, parts.runtime)
    )
    report_file = report_file_of(destination)
    for file, document, indent in (
        (provenance_file(destination), said, 1),
        (report_file, as_record(report), 2),
    ):
        temporary = beside.enter_context(placed_beside(file))
        temporary.write_text(json.dumps(document, indent=indent) + "\n", encoding="utf-8")
    context.note(f"{destination}/ and .tar.zst")
    outcome = Outcome(
        bundle=replace(packed, directory=destination, archive=archive_of(destination)),
        report=report,
        report_file=report_file,
        target=target,
    )
    if order.force:
        places = [destination.with_name(each.file) for each in packages]
        require_own(places, destination)
        may_replace(places)
        beside.enter_context(withdrawn((outcome.report_file, *outcome.sent), destination))
    return outcome
