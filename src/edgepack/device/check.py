"""A bundle verified on a device: run there, compared here, by the code that compares what this host runs."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from edgepack.records.report import Verification
from edgepack.verifier.confined.limits import limits_for
from edgepack.verifier.gate import verification_texts
from edgepack.verifier.judge import Judged, judge
from edgepack.verifier.run import BundleRunner, failure_of

LONGEST = 1000
"""Letters of a reason."""


@dataclass
class _Program:
    """The bundle's program, which is asked for the vectors of the 200 texts once."""

    runner: BundleRunner
    bundle: Bundle
    vectors: Sequence[Sequence[float]] = ()

    def embed(self, bundle: Bundle, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        if tuple(texts) != verification_texts() or bundle.directory != self.bundle.directory:
            return self.runner.embed(bundle, texts)
        if not self.vectors:
            self.vectors = self.runner.embed(bundle, texts)
        return self.vectors


def verify_on(at: Address, asked: Judged, *, bench: bool, context: BuildContext) -> DeviceResult:
    """Run a bundle on a device and compare what it answers; nothing stays there.

    The status is ``passed``, or ``not verified`` where the device lacks what the bundle needs, such as a GPU. Raises ``EdgepackError``:
    ``DeviceError`` for a device that fails, ``FloorError`` for one that the bundle is not for, else as `edgepack verify`.
    """
    bundle = asked.bundle
    with open_session(at, context=context) as session:
        found = describe(session, context=context)
        require_fit(bundle, found.device, named=at.id)
        with placed(bundle, session, context=context) as there:
            runner = runner_on(there, context=context)
            program, golden = _Program(runner=runner, bundle=bundle), _self_test(bundle, runner)

            def at_levels(texts: Sequence[str], verification: Verification) -> Verification:
                return at_lower_levels(
                    bundle,
                    session,
                    found.device,
                    program.embed,
                    texts,
                    verification,
                    options=asked.options,
                    context=context,
                )

            verification = judge(
                asked,
                runner,
                program.embed,
                at_levels=at_levels,
                tokenizer=_is_own(bundle),
                copies=asked.said is not None,
                context=context,
            )
            speed = measure_speed(bundle, runner) if _is_own(bundle) else None
            if bench and speed is not None and speed.lengths:
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
        vectors=_digest(program.vectors),
        files_by=there.files_by,
        ran=tuple(_ran(bundle, verification, golden, there)),
        golden_cosine=golden,
        speed=speed,
    )


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
