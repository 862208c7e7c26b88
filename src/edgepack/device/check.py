"""A bundle verified on a device: run there, compared here, by the code that compares what this host runs."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

import edgepack
from edgepack.context import BuildContext
from edgepack.device.describe import describe
from edgepack.device.fit import require_fit
from edgepack.device.levels import at_lower_levels
from edgepack.device.placed import Placed, placed
from edgepack.device.program import runner_on
from edgepack.device.session import Address, open_session
from edgepack.device.speed import measure_speed, with_load
from edgepack.errors import EdgepackError, ProofError, VerificationError
from edgepack.records.bundle import OWN_KINDS, Bundle
from edgepack.records.device import DeviceResult
from edgepack.records.model import ModelSource
from edgepack.records.report import Verification
from edgepack.records.target import ModelOptions
from edgepack.verifier import gate as gatekeeper
from edgepack.verifier.confined.limits import limits_for
from edgepack.verifier.copies import require_used_files
from edgepack.verifier.facts import not_asked, require_precision, require_promises
from edgepack.verifier.gate import verification_texts
from edgepack.verifier.proofs import require_golden, require_other_forms
from edgepack.verifier.run import BundleRunner, failure_of

LONGEST = 1000
"""Letters of a reason."""


@dataclass(frozen=True, kw_only=True)
class DeviceCheck:
    """Inputs by which a bundle is judged, whatever device it is on."""

    bundle: Bundle
    source: ModelSource
    options: ModelOptions
    seed: int
    promises: bool
    """Whether the limits that its manifest says it keeps have to hold, too: it was not made here."""
    said: tuple[str, ...] = ()
    """What of it is its maker's word alone, in words."""
    bench: bool = False


@dataclass
class _Kept:
    """The vectors of the 200 texts, which are embedded once."""

    vectors: Sequence[Sequence[float]] = field(default_factory=list)


def verify_on(at: Address, asked: DeviceCheck, *, context: BuildContext) -> DeviceResult:
    """Run a bundle on a device and compare what it answers; nothing stays there.

    The status is ``passed``, or ``not verified`` where the device lacks what the bundle needs, such as a GPU. Raises ``EdgepackError``:
    ``DeviceError`` for a device that fails, ``FloorError`` for one that the bundle is not for, else as `edgepack verify`.
    """
    bundle = asked.bundle
    with open_session(at, context=context) as session:
        found = describe(session, context=context)
        require_fit(bundle, found.device, named=at.id)
        with placed(bundle, session, context=context) as there:
            runner, kept = runner_on(there, context=context), _Kept()
            texts = gatekeeper.texts_for_strangers(asked.source, asked.seed)
            golden = _self_test(bundle, runner)
            verification = _verified(asked, runner, kept, texts, context)
            verification = at_lower_levels(
                bundle,
                session,
                found.device,
                runner.embed,
                # A bundle of ours is held to its own limits, which are of the published texts.
                texts if asked.promises else verification_texts(),
                verification,
                options=asked.options,
                context=context,
            )
            speed = measure_speed(bundle, runner) if _is_own(bundle) else None
            if asked.bench and speed is not None and speed.lengths:
                speed = with_load(speed, bundle, there, runner, found)
    context.note(_in_short(at, verification))
    return DeviceResult(
        id=at.id,
        transport=at.scheme,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        edgepack=edgepack.__version__,
        status=verification.status,
        device=found.device,
        # A program may say more of a missing GPU than a record holds.
        verification=replace(verification, cosines=(), reason=verification.reason[:LONGEST]),
        vectors=_digest(kept.vectors),
        files_by=there.files_by,
        ran=tuple(_ran(bundle, verification, golden, there)),
        golden_cosine=golden,
        speed=speed,
    )


def _verified(
    asked: DeviceCheck, runner: BundleRunner, kept: _Kept, texts: Sequence[str], context: BuildContext
) -> Verification:
    published = verification_texts()

    def embed(bundle: Bundle, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        if tuple(texts) != published or bundle.directory != asked.bundle.directory:
            return runner.embed(bundle, texts)
        if not kept.vectors:
            kept.vectors = runner.embed(bundle, texts)
        return kept.vectors

    found = gatekeeper.verify(
        asked.bundle,
        asked.source,
        embed,
        options=asked.options,
        program=runner,
        tokenizer=_is_own(asked.bundle),
        seed=asked.seed,
        context=context,
    )
    require_precision(asked.bundle, found)
    if asked.promises:
        require_promises(asked.bundle, found)
        found = replace(found, said=(*asked.said, *not_asked(asked.bundle, asked.source, found)))
    if found.status == "passed":
        require_golden(asked.bundle, runner.embed)
        runner.require_server(asked.bundle)
        if asked.promises:
            require_other_forms(asked.bundle, embed, texts, asked.options, context)
            require_used_files(asked.bundle, embed, context=context)
    return found


def _is_own(bundle: Bundle) -> bool:
    return bundle.manifest["runner"].get("kind") in OWN_KINDS


def _self_test(bundle: Bundle, runner: BundleRunner) -> float | None:
    """The lowest cosine of the program's own self-test, which compares files, too. Raises what a failed run means, but for a missing GPU,
    which the gate tells of.
    """
    if not _is_own(bundle):
        return None
    ended = runner.run(bundle, [bundle.program, "--self-test", "--json"])
    if ended.code != 0:
        failure = failure_of(bundle, ended, limits_for(bundle))
        if isinstance(failure, EdgepackError):
            raise failure
        return None
    try:
        said: Any = json.loads(ended.output)
        cosine = float(said["min_cosine"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ProofError(
            f"the self-test of {bundle.name} answered with something else than figures"
        ) from error
    if not -1.001 <= cosine <= 1.001:
        raise VerificationError(f"the self-test of {bundle.name} answered with a cosine of {cosine:g}")
    return min(cosine, 1.0)


def _digest(vectors: Sequence[Sequence[float]]) -> str:
    return hashlib.sha256(np.asarray(vectors, "<f4").tobytes()).hexdigest() if vectors else ""


def _ran(bundle: Bundle, found: Verification, golden: float | None, there: Placed) -> Sequence[str]:
    """Names of the checks that were run, in the words of the record."""
    said = {
        "self-test": golden is not None,
        "vectors": found.texts > 0,
        "long texts": found.long_cosine is not None,
        "prompts": found.prompt_cosine is not None,
        "shorter vectors": found.shorter_cosine is not None,
        "drawn texts": found.drawn is not None,
        "batches": found.batch_cosine is not None,
        "tokenizer": found.same_tokens > 0,
        "scores": found.scores is not None,
        "outputs": bool(found.outputs),
        "lower CPU levels": bool(found.levels),
        "server": found.status == "passed" and bool(bundle.manifest["runner"].get("serve")),
    }
    return [name for name, ran in said.items() if ran]


def _in_short(at: Address, found: Verification) -> str:
    figures = f", mean cosine {found.mean_cosine:.4f}" if found.texts else ""
    return f"{at.id}: {found.status}{figures}"
