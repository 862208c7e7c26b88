"""Checking a bundle that was made earlier, perhaps elsewhere."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgepack.bundles.archive import unpack_bundle
from edgepack.bundles.manifest import open_bundle
from edgepack.errors import BundleError, ModelError, UsageError
from edgepack.models.find.catalogue import CATALOGUE_PREFIX
from edgepack.models.find.source import ingest
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource
from edgepack.records.report import Verification
from edgepack.records.target import UNSAID, GateLevel, ModelOptions, Reading
from edgepack.signing.keys import PublicKey
from edgepack.signing.signatures import (
    Signed,
    require_numbers,
    require_signed,
    require_signed_file,
    require_version,
)
from edgepack.targets import LIMITS
from edgepack.typed import Malformed, read_table
from edgepack.verifier import gate as gatekeeper
from edgepack.verifier.copies import require_used_files
from edgepack.verifier.made_here import may_run, runner_for

NOT_RUN = (
    "its files are as its manifest lists them, but it was not made on this machine, and its program was not run; "
    "--run runs it, in a sandbox where this host has one"
)

OWN_LIMITS = ModelOptions(min_cosine=0.985, min_agreement=0.9, min_top10=0.9, min_batch_cosine=0.999)
"""What a bundle from elsewhere is held to where nobody says otherwise: what built-in targets ask of int8 models."""


def verify_again(
    path: Path,
    *,
    model: str | None,
    reading: Reading = UNSAID,
    limits: ModelOptions | None = None,
    gate: GateLevel | None = None,
    write_vectors: Path | None = None,
    others: Path | None = None,
    run: bool = False,
    most: int | None = None,
    key: PublicKey | None = None,
    least_version: str | None = None,
    context: HostContext,
) -> Verification:
    """Check every file of a bundle (or archive), run it, and compare it with the full-precision model.

    No builder is asked: the manifest says what is run. A bundle that was not made on this machine is run only with ``run``,
    in a sandbox where there is one; else it is *not verified*. ``reading`` goes before what was set
    when the bundle was made; what was set elsewhere does not count.

    The limits are ``limits``. Without these, a bundle that was made here is held to what its target asked for, and any other
    to ``OWN_LIMITS``: nobody sets the limits of what is judged. Likewise its model is not fetched from where its manifest says,
    but for those of the catalogue, whose digests are known. ``gate`` is another level. An archive may unpack to
    ``most`` bytes. With ``key`` it has to be signed by that key's owner, in its folder or beside its archive, and with
    ``least_version`` be of that version or a newer one. With ``write_vectors`` the bundle's vectors are kept for another machine, with
    ``others`` they are compared with those of another machine.
    """
    story = context.story
    with story.step("bundle"), _opened(path, context.work_dir, most, key, least_version) as (bundle, signed):
        if signed is not None:
            context.note(f"signed with the key {signed.key[:12]}…")
        context.note(f"{bundle.name}, {len(bundle.manifest['files'])} files as the manifest lists them")
        if not may_run(bundle, asked=run, context=context):
            return Verification(status="not verified", reason=NOT_RUN)
        with story.step("model"):
            again = reading.over(reading_of(bundle, context))
            source = ingest(model or _origin(bundle, context), reading=again, context=context)
            _require_same_model(source, bundle.manifest)
        with story.step("verify"):
            runner = runner_for(bundle, context)
            options = limits or _limits(bundle, context)
            options = replace(options, gate=gate or options.gate)
            if write_vectors is not None:
                gatekeeper.write_vectors(bundle, runner.embed, write_vectors)
            found = gatekeeper.verify(
                bundle,
                source,
                runner.embed,
                options=options,
                tokens=runner.tokens,
                scoring=runner,
                others=others,
                context=context,
            )
            require_used_files(bundle, runner.embed, context=context)
            runner.require_server(bundle)
            return found


def check_signature(
    path: Path,
    key: PublicKey,
    *,
    least_version: str | None = None,
    most: int | None = None,
    context: HostContext,
) -> Signed:
    """Check the signature and every file of a bundle (or archive), and run nothing. Raises ``SignatureError``, ``BundleError``."""
    with _opened(path, context.work_dir, most, key, least_version) as (_, signed):
        assert signed is not None
        return signed


def _limits(bundle: Bundle, context: HostContext) -> ModelOptions:
    if may_run(bundle, asked=False, context=context):
        return limits_of(bundle.manifest)
    context.note(
        "judged by edgepack's default limits, because it was not made here; choose others with --target or --min-cosine"
    )
    return OWN_LIMITS


def reading_of(bundle: Bundle, context: HostContext) -> Reading:
    """What was said of the model when the bundle was made here; raises ``BundleError`` where that is invalid."""
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
    """Where the manifest says that the model came from. Raises ``UsageError`` where that is not to be asked."""
    origin = str(bundle.manifest["model"]["origin"])
    if origin.startswith(CATALOGUE_PREFIX) or may_run(bundle, asked=False, context=context):
        return origin
    raise UsageError(
        f"the bundle says that its model is {origin}, and edgepack does not fetch what a foreign bundle names",
        hint=f"name the model: --model {origin}, or a folder that holds it",
    )


def limits_of(manifest: Mapping[str, Any]) -> ModelOptions:
    """What a bundle was held to, as its manifest remembers it."""
    gate = manifest["gate"]
    return ModelOptions(**{key: gate[key] for key in ("gate", *LIMITS) if key in gate})


@contextmanager
def _opened(
    path: Path, work_dir: Path, most: int | None, key: PublicKey | None, least_version: str | None
) -> Iterator[tuple[Bundle, Signed | None]]:
    if least_version is not None:
        require_numbers(least_version)
        if key is None:
            raise UsageError(
                "--min-version requires --key: without a signature anyone can write a version",
                hint="--key names the public key",
            )
    outside = False
    if path.is_file():
        # Before anything in it is looked at.
        outside = key is not None and require_signed_file(path, key)
        path = unpack_bundle(path, work_dir / "unpacked", most=most)
    bundle = open_bundle(path)
    signed = None if key is None else require_signed(bundle, key, outside=outside)
    if least_version is not None:
        require_version(bundle, least_version)
    yield bundle, signed


def _require_same_model(source: ModelSource, manifest: Mapping[str, Any]) -> None:
    here = {file.path: file.sha256 for file in source.files}
    made_from = {file["path"]: file["sha256"] for file in manifest["model"]["source_files"]}
    for path, sha256 in made_from.items():
        if here.get(path) != sha256:
            raise ModelError(
                f"the bundle was made from another model: {path} has sha256 {here.get(path)}, "
                f"the manifest says {sha256}",
                hint="name the original model with --model",
            )
