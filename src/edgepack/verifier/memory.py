"""What a bundle's program takes of a device's memory: measured, and its worst case run under a limit that the system enforces."""

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Protocol

from edgepack.bundles.manifest import LINK
from edgepack.context import BuildContext
from edgepack.errors import BudgetError, CannotRunHere
from edgepack.files.elf import architecture
from edgepack.records.bundle import Bundle
from edgepack.records.report import LengthMemory, Memory
from edgepack.records.target import Target
from edgepack.tables import megabytes
from edgepack.verifier.command import command_of
from edgepack.verifier.confined.limits import RunLimits, limits_for
from edgepack.verifier.confined.program import Ended
from edgepack.verifier.gate import verification_texts
from edgepack.verifier.run import failure_of
from edgepack.verifier.texts.fuzz import fuzz_texts

ENFORCED_BY = "RLIMIT_DATA"
"""The kernel refuses memory beyond it. It counts what the program may write, touched or not; of its files, which are mapped, all count
against the budget besides. A cgroup counts more exactly, and takes rights that a build has not."""
STACK = 2 << 20
"""Bytes of a thread's stack, which counts whole: the usual 8 MiB are hardly touched."""
BATCH = 32
STRANGE, SEED = 200, 11
"""Texts of all scripts."""
SHORTEST = 16
"""Tokens of the first point of the plot."""
CHARACTERS = 12
"""Of a token, at most, in a long text: it is cut to its tokens."""
UNKNOWN_LENGTH = 512
"""Tokens of the longest text of a model that takes any."""
STEP, TRIES = 1.15, 10
"""How much more is tried when the budget is too small, so that the hint names what is enough."""


class Runner(Protocol):
    """How a bundle's program is run; ``BundleRunner`` does it."""

    def run(
        self,
        bundle: Bundle,
        command: Sequence[str | Path],
        input: str = "",
        *,
        limits: RunLimits | None = None,
    ) -> Ended: ...


def measure_memory(bundle: Bundle, target: Target, *, runner: Runner, context: BuildContext) -> Memory | None:
    """Memory of the bundle's program, whose worst case runs within the target's budget; ``None`` where the target has none.

    Raises ``BudgetError`` when it does not, ``ProofError`` when the program fails without a limit as well.
    """
    allowed = target.memory_budget
    if allowed is None:
        return None
    tokens = min(filter(None, (bundle.manifest["model"].get("max_length"), target.memory_length)), default=0)
    tokens = tokens or UNKNOWN_LENGTH
    threads = target.memory_threads
    if reason := why_not(bundle):
        context.note(f"memory not measured: {reason}")
        return Memory(budget=allowed, threads=threads, tokens=tokens, reason=reason)
    run = _Runs(bundle, runner)
    options = [f"--threads={threads}", f"--batch-size={BATCH}", *run.shortened(tokens)]
    worst = worst_texts(tokens, threads)
    peak = run.peak(worst, options)
    _require_within(run, worst, options, peak, allowed, target)
    lengths = sorted({tokens, *(SHORTEST << step for step in range(20) if SHORTEST << step < tokens)})
    text = long_texts(tokens, 1)
    found = Memory(
        budget=allowed,
        threads=threads,
        tokens=tokens,
        enforced_by=ENFORCED_BY,
        one_text=run.peak(verification_texts()[:1]),
        batch=run.peak(verification_texts()[:BATCH], [f"--batch-size={BATCH}"]),
        worst=peak,
        lengths=tuple(
            LengthMemory(tokens=each, peak=run.peak(text, ["--threads=1", *run.shortened(each)]))
            for each in lengths
        ),
    )
    context.note(f"{megabytes(peak)} MB of memory at worst")
    return found


def worst_texts(tokens: int, threads: int) -> list[str]:
    """Longest texts for each thread at once, then those of the gate, strange ones, and again the longest, when memory is in pieces."""
    words = " ".join(verification_texts()).split()
    longest = long_texts(tokens, 2 * threads)
    return [
        *longest,
        *verification_texts(),
        *fuzz_texts(STRANGE, seed=SEED, words=words, specials=()),
        *longest,
    ]


def long_texts(tokens: int, count: int) -> list[str]:
    """Different texts, in all scripts of the gate's, of more than so many tokens each."""
    texts = verification_texts()
    made = []
    for first in range(count):
        start = first * len(texts) // count
        parts: list[str] = []
        size = 0
        for part in cycle((*texts[start:], *texts[:start])):
            parts.append(part)
            size += len(part) + 1
            if size > tokens * CHARACTERS:
                break
        made.append(" ".join(parts))
    return made


def why_not(bundle: Bundle) -> str:
    """Why the program's memory and speed cannot be measured on this host as a device has them; empty where they can."""
    if (bundle.manifest["runtime"] or {}).get("provider"):
        return "it runs on a GPU"
    try:
        program = command_of(bundle, trusted=True)[0]
    except CannotRunHere as cannot:
        return cannot.reason
    if not Path(program).is_relative_to(bundle.directory.absolute()):
        return f"it is run by {Path(program).name}, which devices do not have"
    built_for = architecture(Path(program))
    if built_for != platform.machine():
        return f"it is for {built_for or 'another system'}, this host is {platform.machine()}"
    return ""


def _require_within(
    run: "_Runs", texts: Sequence[str], options: Sequence[str], peak: int, allowed: int, target: Target
) -> None:
    """Raise ``BudgetError`` unless the texts can be embedded within the budget."""
    if run.fits(texts, options, allowed):
        return
    tried = max(float(allowed), float(peak))
    for _ in range(TRIES):
        tried *= STEP
        if run.fits(texts, options, int(tried)):
            break
    enough = math.ceil(tried / 1e6)
    raise BudgetError(
        f"the program's worst case does not run in {allowed / 1e6:.1f} MB of memory, which is what target {target.name} allows",
        hint=f"fewer threads or shorter texts on devices (--set budget.threads=1, --set budget.max_length=128), a smaller recipe, "
        f'or --set budget.memory="{enough} MB"',
    )


class _Runs:
    """Runs of one bundle's program on this host."""

    def __init__(self, bundle: Bundle, runner: Runner) -> None:
        self._bundle, self._runner = bundle, runner
        self._files = sum(int(file["size"]) for file in bundle.manifest["files"] if file["mode"] != LINK)
        self._most = bundle.manifest["model"].get("max_length")

    def shortened(self, tokens: int) -> list[str]:
        """The option that cuts texts, where they are not cut there anyway."""
        return [] if tokens == self._most else [f"--max-length={tokens}"]

    def peak(self, texts: Sequence[str], options: Sequence[str] = ()) -> int:
        """Most bytes that were resident at once."""
        limits = limits_for(self._bundle, len(texts))
        ended = self._run(texts, options, limits)
        if ended.code != 0 or ended.passed is not None:
            raise failure_of(self._bundle, ended, limits)
        return ended.peak

    def fits(self, texts: Sequence[str], options: Sequence[str], allowed: int) -> bool:
        """Whether the program embeds them with so many bytes, its files included."""
        if allowed <= self._files:
            return False
        limits = replace(limits_for(self._bundle, len(texts)), data=allowed - self._files, stack=STACK)
        ended = self._run(texts, options, limits)
        return ended.code == 0 and ended.passed is None

    def _run(self, texts: Sequence[str], options: Sequence[str], limits: RunLimits) -> Ended:
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        return self._runner.run(
            self._bundle, [*command_of(self._bundle, trusted=True), *options], lines, limits=limits
        )
