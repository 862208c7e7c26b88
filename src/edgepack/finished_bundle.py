"""Checking a bundle that was made earlier, perhaps elsewhere."""

import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from edgepack.bundles.archive import lies_beside, unpack_bundle
from edgepack.bundles.manifest import open_bundle
from edgepack.device.check import verify_on
from edgepack.device.describe import describe
from edgepack.device.fit import fits
from edgepack.device.record import (
    falls_short,
    kept_results,
    proof_at,
    record_file_of,
    require_device,
    write_record,
)
from edgepack.device.session import Address, open_session
from edgepack.errors import (
    BundleError,
    EdgepackError,
    NotVerifiedError,
    SignatureError,
    UsageError,
)
from edgepack.files.elf import architecture
from edgepack.files.folder import ARRAY, require_kind, require_outside
from edgepack.files.store import require_unchanged
from edgepack.models.export.source_key import digests_of
from edgepack.models.find.catalogue import CATALOGUE_PREFIX
from edgepack.models.find.source import ingest
from edgepack.plugins.checks import require_sound
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.device import DeviceDescription, DeviceFailure, DeviceProof, DeviceResult, OnDevices
from edgepack.records.model import ModelSource
from edgepack.records.report import Verification
from edgepack.records.target import UNSAID, GateLevel, ModelOptions, Reading
from edgepack.signing.keys import PrivateKey, PublicKey
from edgepack.signing.signatures import (
    Signed,
    is_signed_file,
    require_numbers,
    require_signed,
    require_signed_file,
    require_version,
    sign_file,
    signature_of,
)
from edgepack.terminal_text import foreign
from edgepack.toml_schema import Malformed, read_table
from edgepack.verifier import gate as gatekeeper
from edgepack.verifier.command import has_provider
from edgepack.verifier.confined.module_process import module_of
from edgepack.verifier.facts import (
    OWN_LIMITS,
    given_by_bundle,
    limits_of,
    require_facts,
)
from edgepack.verifier.judge import Judged, judge
from edgepack.verifier.proofs import (
    known_of,
    limits_while_read,
    not_hidden,
    prove_bundle,
)
from edgepack.verifier.run import BundleRunner
from edgepack.verifier.texts.drawn import new_seed
from edgepack.verifier.trusted_bundles import (
    DEVICE_RECORDS,
    is_kept,
    keep,
    may_run,
    runner_for,
)

NOT_RUN = (
    "its files are as its manifest lists them, but it was not made on this machine, and its program was not run; "
    "--run runs it, in a sandbox where this host has one"
)


@dataclass(frozen=True, kw_only=True)
class VerifyOptions:
    """How a finished bundle is verified, as far as the user says."""

    model: str | None = None
    """Address of the full-precision model; ``None``: where the manifest says, of a bundle that was made here. Of others it is not fetched
    from there, but for models of the catalogue, whose digests are known."""
    reading: Reading = UNSAID
    """Goes before what was set when the bundle was made; what was set elsewhere does not count."""
    limits: ModelOptions | None = None
    """``None``: a bundle that was made here is held to what its target asked for, any other to ``OWN_LIMITS``: nobody sets the limits of
    what is judged."""
    gate: GateLevel | None = None
    """Another level than that of the limits."""
    module: Path | None = None
    """File of the module around the model. One of a bundle from elsewhere is the judge's, too, only where the user names the same file."""
    run: bool = False
    """Whether a bundle that was not made on this machine is run, in a sandbox where there is one; else it is *not verified*."""
    seed: int | None = None
    """Draws the texts for a stranger's program; ``None``: a new one."""
    most: int | None = None
    """Bytes that an archive may unpack to."""
    key: PublicKey | None = None
    """Key that it is signed with, in its folder or beside its archive."""
    least_version: str | None = None
    """Version that it has, or a newer one."""


def verify_again(
    path: Path,
    asked: VerifyOptions,
    *,
    write_vectors: Path | None = None,
    others: Path | None = None,
    context: HostContext,
) -> Verification:
    """Check every file of a bundle (or archive), run it, and compare it with the full-precision model.

    No builder is asked: the manifest says what is run, and all that it says of the model is compared with the model itself
    (``require_facts``). A bundle from elsewhere is also judged on texts that are drawn and at every CPU level that this machine has or can
    hide. With ``write_vectors`` the bundle's vectors are kept for another machine, with ``others`` they are compared with those of another
    machine.
    """
    require_outside(write_vectors, path)
    require_kind(write_vectors, ARRAY)
    story = context.story
    with story.step("bundle"), _opened(path, asked, context) as opened:
        bundle = opened.bundle
        if opened.signed is not None:
            context.note(f"signed with the key {opened.signed.key[:12]}…")
        context.note(f"{bundle.name}, {len(bundle.manifest['files'])} files as the manifest lists them")
        if not may_run(bundle, asked=asked.run, context=context):
            return Verification(status="not verified", reason=NOT_RUN)
        ours = may_run(bundle, asked=False, context=context)
        source, said = _source(bundle, asked, context)
        with story.step("verify"):
            runner, options = runner_for(bundle, context), _options(bundle, asked, context)
            if write_vectors is not None:
                gatekeeper.write_vectors(bundle, runner.embed, write_vectors)
            found = judge(
                Judged(
                    bundle=bundle,
                    source=source,
                    options=options,
                    seed=None if ours else _seed(asked),
                    said=None if ours else said,
                ),
                runner,
                runner.embed,
                at_levels=lambda texts, found: (
                    found if ours else _at_all_levels(bundle, runner, texts, found, options, context)
                ),
                others=others,
                context=context,
            )
            found = replace(found, said=(*found.said, *opened.unseen))
            require_unchanged(digests_of(source))
            return found


def verify_on_devices(
    path: Path,
    devices: Sequence[Address],
    asked: VerifyOptions,
    *,
    bench: bool = False,
    record: Path | None = None,
    sign: PrivateKey | None = None,
    context: HostContext,
) -> OnDevices:
    """Verify again, as ``verify_again`` does, with the program run on devices and not here; one device's failure does not stop the others.

    On a device there is no sandbox: a bundle that was not made on this machine is sent only with ``run``, and else a ``UsageError`` is raised. Texts are drawn
    anew in any case: a device is a stranger, too. What devices measured is written to ``record`` (``None``: beside the bundle), signed with
    ``sign``.
    """
    require_outside(record, path)
    story = context.story
    names = [at.id for at in devices]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(
            f"two devices are called {twice[0]}", hint="NAME= before an address gives it another name"
        )
    with story.step("bundle"), _opened(path, asked, context) as opened:
        bundle = opened.bundle
        context.note(f"{bundle.name}, {len(bundle.manifest['files'])} files as the manifest lists them")
        if not may_run(bundle, asked=asked.run, context=context):
            raise UsageError(
                f"{bundle.name} was not made on this machine, and devices have no sandbox",
                hint="--run sends it and runs its program there, with the rights of whom you log in as",
            )
        file = record or record_file_of(path, bundle.name)
        kept_results(file, bundle, key=None if sign is None else sign.public, store=context.store)
        source, said = _source(bundle, asked, context)
        ours = may_run(bundle, asked=False, context=context)
        check = Judged(
            bundle=bundle,
            source=source,
            options=_options(bundle, asked, context),
            seed=_seed(asked),
            said=None if ours else (*said, *opened.unseen),
        )
        results: list[DeviceResult] = []
        failures: list[DeviceFailure] = []
        proofs: list[str] = []
        for at in devices:
            try:
                with story.step(f"on {at.id}"):
                    made = verify_on(at, check, bench=bench, context=context)
                    require_unchanged(digests_of(source))
                results.append(made)
                proofs.append(proof_at(at, results[-1].device, bundle))
            except EdgepackError as error:
                failures.append(_failure(at, error))
        failed = [each.id for each in failures]
        write_record(file, bundle, results, failed=failed, key=sign, store=context.store)
        for proof in proofs:
            keep(DEVICE_RECORDS, proof, store=context.store)
        return OnDevices(results=tuple(results), failures=tuple(failures), record=file if results else None)


def _source(
    bundle: Bundle, asked: VerifyOptions, context: HostContext
) -> tuple[ModelSource, tuple[str, ...]]:
    """The full-precision model, after all that the manifest says of it was compared; and what is the maker's word alone."""
    with context.story.step("model"):
        again = asked.reading.over(reading_of(bundle, context))
        source = ingest(asked.model or _origin(bundle, context), reading=again, context=context)
        source = given_by_bundle(bundle, source)
        ours = may_run(bundle, asked=False, context=context)
        source = replace(source, module=module_of(bundle, ours=ours, named=asked.module, context=context))
        with limits_while_read(bundle):
            said = require_facts(bundle, source)
            require_sound(bundle, context=context)
        return source, said


def _options(bundle: Bundle, asked: VerifyOptions, context: HostContext) -> ModelOptions:
    options = asked.limits or _limits(bundle, context)
    return replace(options, gate=asked.gate or options.gate)


def _seed(asked: VerifyOptions) -> int:
    return new_seed() if asked.seed is None else asked.seed


@dataclass(frozen=True, kw_only=True)
class Built:
    """A bundle of a project."""

    label: str
    path: Path
    model: str | None
    """What it was made of, as ``--model`` takes it."""


def prove_built(
    bundles: Sequence[Built],
    devices: Sequence[Address],
    *,
    force: bool = False,
    sign: PrivateKey | None = None,
    context: HostContext,
) -> list[DeviceProof]:
    """Prove each bundle on the devices that it is for; what a record of ours has of it there is not measured again."""
    there: dict[Address, DeviceDescription] = {}
    found: list[DeviceProof] = []
    for at in devices:
        try:
            with open_session(at, context=context) as session:
                there[at] = describe(session, context=context).device
        except EdgepackError as error:
            found += [
                DeviceProof(label=built.label, device=at.id, state="not there", reason=error.message)
                for built in bundles
            ]
    for built in bundles:
        bundle = open_bundle(built.path)
        for at, device in there.items():
            if fits(bundle, device):
                known = not force and is_kept(
                    DEVICE_RECORDS, proof_at(at, device, bundle), store=context.store
                )
                found.append(_proof(built, bundle, at, known=known, sign=sign, context=context))
    return found


def _proof(
    built: Built,
    bundle: Bundle,
    at: Address,
    *,
    known: bool,
    sign: PrivateKey | None,
    context: HostContext,
) -> DeviceProof:
    """``known``: it was proved at this very address, and a record of ours need not be made again."""
    label, path = built.label, built.path
    try:
        asked, file = VerifyOptions(model=built.model), record_file_of(path, bundle.name)
        public = None if sign is None else sign.public
        kept = kept_results(file, bundle, key=public, store=context.store)
        limits = _options(bundle, asked, context)
        if known and any(each.id == at.id and not falls_short(each, limits) for each in kept):
            if sign is not None and not is_signed_file(file, sign.public):
                sign_file(file, sign)
            return DeviceProof(label=label, device=at.id, state="up to date")
        made = verify_on_devices(path, [at], asked, sign=sign, context=context)
    except EdgepackError as error:
        return DeviceProof(
            label=label, device=at.id, state="failed", reason=error.message, exit_code=error.exit_code
        )
    for failure in made.failures:
        return DeviceProof(
            label=label, device=at.id, state="failed", reason=failure.message, exit_code=failure.exit_code
        )
    (result,) = made.results
    return DeviceProof(
        label=label,
        device=at.id,
        state=result.status,
        reason=result.verification.reason,
        exit_code=0 if result.status == "passed" else NotVerifiedError.exit_code,
    )


def _failure(at: Address, error: EdgepackError) -> DeviceFailure:
    message = error.message if at.id in error.message else f"{at.id}: {error.message}"
    return DeviceFailure(id=at.id, message=message, hint=error.hint or "", exit_code=error.exit_code)


def check_device(
    path: Path, wanted: str, asked: VerifyOptions, *, record: Path | None = None, context: HostContext
) -> DeviceResult:
    """Result of a device of this id or processor for this very bundle, which passed there by these limits; nothing is run.

    Raises ``DeviceError`` where no record says so that was written here or is signed with ``asked.key``; the bundle need not be.
    """
    with _opened(path, replace(asked, key=None), context) as opened:
        return require_device(
            record or record_file_of(path, opened.bundle.name),
            opened.bundle,
            wanted,
            limits=_options(opened.bundle, asked, context),
            key=asked.key,
            store=context.store,
        )


def _at_all_levels(
    bundle: Bundle,
    runner: BundleRunner,
    texts: Sequence[str],
    found: Verification,
    options: ModelOptions,
    context: HostContext,
) -> Verification:
    """The figures with those of the CPU levels that this machine has or can hide, where its processor runs the program."""
    if architecture(bundle.program) != platform.machine():
        return found
    if has_provider(bundle):  # a GPU has no levels
        return found
    known = known_of(bundle, runner.embed, texts, options)
    alone = {key: value for key, value in bundle.manifest["runner"].items() if key != "library"}
    program = replace(bundle, manifest={**bundle.manifest, "runner": alone})
    isa = tuple(bundle.manifest["target"]["platform"].get("isa", ()))
    # Whether it has kernels for several levels is not for its sender to say.
    proofs = prove_bundle(
        program, runner.at, levels="here", isa=isa, known=known, anyway=True, context=context
    )
    ran = [proof for proof in proofs if proof.proved]
    if lacking := [proof.level for proof in proofs if not proof.proved]:
        context.note(f"not run: CPU levels {', '.join(lacking)}")
    if (lowest := gatekeeper.lowest_of_levels(ran)) is None:
        return found
    context.note(f"at the CPU levels {', '.join(proof.level for proof in ran)}: cosine {lowest:.4f} at least")
    cosine = lowest if found.processor_cosine is None else min(lowest, found.processor_cosine)
    said = (*found.said, *not_hidden(bundle))
    return replace(found, levels=tuple(proof.level for proof in ran), processor_cosine=cosine, said=said)


def check_signature(path: Path, asked: VerifyOptions, *, context: HostContext) -> Signed:
    """Check the signature with ``asked.key`` and every file of a bundle (or archive), and run nothing. Raises ``SignatureError``, ``BundleError``."""
    with _opened(path, asked, context) as opened:
        assert opened.signed is not None
        return opened.signed


def _limits(bundle: Bundle, context: HostContext) -> ModelOptions:
    if may_run(bundle, asked=False, context=context):
        return limits_of(bundle.manifest)
    context.note(
        "judged by edgepack's default limits, because it was not made here; choose others with --target or --min-cosine"
    )
    return OWN_LIMITS


def reading_of(bundle: Bundle, context: HostContext) -> Reading:
    """Settings of the model that were given when the bundle was made here; raises ``BundleError`` where that is invalid."""
    said = bundle.manifest["model"].get("set", {})
    if said and not may_run(bundle, asked=False, context=context):
        context.note(
            "the model settings in its manifest are ignored; set them with --pooling, --normalize, --prompt"
        )
        return UNSAID
    try:
        return read_table(Reading, said, where="model.set")
    except Malformed as error:
        raise BundleError(f"the bundle's manifest: {error}", hint=error.hint) from error


def _origin(bundle: Bundle, context: HostContext) -> str:
    """Address of the model that the manifest names. Raises ``UsageError`` where that is not to be asked."""
    origin = str(bundle.manifest["model"]["origin"])
    if origin.startswith(CATALOGUE_PREFIX) or may_run(bundle, asked=False, context=context):
        return origin
    raise UsageError(
        f"the bundle says that its model is {origin}, and edgepack does not fetch what a foreign bundle names",
        hint=f"name the model: --model {origin}, or a folder that holds it",
    )


@dataclass(frozen=True, kw_only=True)
class _Opened:
    """A bundle whose files, and signature where one is asked for, are right."""

    bundle: Bundle
    signed: Signed | None
    unseen: tuple[str, ...]
    """What came with it and is neither listed nor signed, in words."""


@contextmanager
def _opened(path: Path, asked: VerifyOptions, context: HostContext) -> Iterator[_Opened]:
    key, least_version = asked.key, asked.least_version
    if least_version is not None:
        require_numbers(least_version)
        if key is None:
            raise UsageError(
                "--min-version requires --key: without a signature anyone can write a version",
                hint="--key names the public key",
            )
    outside = False
    unseen: tuple[str, ...] = ()
    if path.is_file():
        # Before anything in it is looked at.
        outside = key is not None and require_signed_file(path, key)
        archive, path = path, unpack_bundle(path, context.work_dir / "unpacked", most=asked.most)
        if not outside and (other := lies_beside(archive, path, most=asked.most)) is not None:
            if key is not None:
                raise SignatureError(
                    f"{archive.name} is not signed: it holds {foreign(other)} beside the bundle, of which a signature in the bundle says nothing",
                    hint=f"the file's own signature is {signature_of(archive).name} beside it; or unpack the file, and verify its bundle's folder",
                )
            unseen = (f"what {archive.name} holds beside the bundle: {other}",)
    bundle = open_bundle(path)
    signed = None if key is None else require_signed(bundle, key, outside=outside)
    if least_version is not None:
        require_version(bundle, least_version)
    yield _Opened(bundle=bundle, signed=signed, unseen=unseen)
