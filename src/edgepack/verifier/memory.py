"""What a bundle's program takes of a device's memory: measured, and its worst case run under a limit that the system enforces."""

import json
import math
import platform
import sys
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

from edgepack.bundles.manifest import LINK
from edgepack.context import BuildContext
from edgepack.errors import BudgetError, CannotRunHere, ToolError
from edgepack.files.elf import architecture
from edgepack.records.bundle import Bundle
from edgepack.records.report import LengthMemory, Memory
from edgepack.records.target import Target
from edgepack.tables import megabytes
from edgepack.verifier.gate import verification_texts
from edgepack.verifier.run import command_of, failure_of
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
WATCH = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[2:]).returncode
with open(sys.argv[1], "w") as file:
    file.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024))
sys.exit(code if code >= 0 else 128 - code)
"""
"""Runs a program from a small process: what a large one had counts for its children."""


def measure_memory(bundle: Bundle, target: Target, *, context: BuildContext) -> Memory | None:
    """Memory of the bundle's program, whose worst case runs within the target's budget; ``None`` where the target has none.

    Raises ``BudgetError`` when it does not, ``ProofError`` when the program fails without a limit as well.
    """
    allowed = target.memory_budget
    if allowed is None:
        return None
    tokens = min(filter(None, (bundle.manifest["model"].get("max_length"), target.memory_length)), default=0)
    tokens = tokens or UNKNOWN_LENGTH
    threads = target.memory_threads
    if reason := _why_not(bundle):
        context.note(f"memory not measured: {reason}")
        return Memory(budget=allowed, threads=threads, tokens=tokens, reason=reason)
    run = _Runs(bundle, context)
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


def _why_not(bundle: Bundle) -> str:
    """Why the program's memory cannot be measured on this host; empty where it can."""
    if (bundle.manifest["runtime"] or {}).get("provider"):
        return "it runs on a GPU"
    try:
        program = command_of(bundle)[0]
    except CannotRunHere as cannot:
        return cannot.reason
    if not Path(program).is_relative_to(bundle.directory.absolute()):
        return f"it is run by {Path(program).name}, whose memory is another on devices"
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

    def __init__(self, bundle: Bundle, context: BuildContext) -> None:
        self._bundle, self._context = bundle, context
        self._files = sum(int(file["size"]) for file in bundle.manifest["files"] if file["mode"] != LINK)
        self._most = bundle.manifest["model"].get("max_length")

    def shortened(self, tokens: int) -> list[str]:
        """The option that cuts texts, where they are not cut there anyway."""
        return [] if tokens == self._most else [f"--max-length={tokens}"]

    def peak(self, texts: Sequence[str], options: Sequence[str] = ()) -> int:
        """Most bytes that were resident at once."""
        said = self._context.work_dir / "peak-memory"
        try:
            self._run([sys.executable, "-I", "-S", "-c", WATCH, str(said)], texts, options)
        except ToolError as error:
            raise failure_of(self._bundle, error) from error
        return int(said.read_text())

    def fits(self, texts: Sequence[str], options: Sequence[str], allowed: int) -> bool:
        """Whether the program embeds them with so many bytes, its files included."""
        if allowed <= self._files:
            return False
        limits = [f"--data={allowed - self._files}", f"--stack={STACK}", "--core=0"]
        try:
            self._run(["prlimit", *limits, "--"], texts, options)
        except ToolError:
            return False
        return True

    def _run(self, prefix: Sequence[str], texts: Sequence[str], options: Sequence[str]) -> None:
        words = [*prefix, "env", "-i", *command_of(self._bundle), *options]
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        self._context.run(words, cwd=self._bundle.directory, input=lines)
