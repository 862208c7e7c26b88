"""A bundle's own vectors: its command, run by the host as a device would run it, in a sandbox where there is one."""

import json
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from edgepack.bundles.manifest import JSON_LINES
from edgepack.context import BuildContext
from edgepack.errors import BundleError, CannotRunHere, EdgepackError, MissingToolError, ProofError
from edgepack.files.elf import architecture
from edgepack.foundry.platforms import platforms
from edgepack.foundry.processors.registry import find_processor
from edgepack.foundry.proof.emulator import find_emulator, find_system
from edgepack.models.token_reference import TextOutputs
from edgepack.records.bundle import OWN_KINDS, Bundle
from edgepack.terminal_text import foreign
from edgepack.verifier.command import command_of, has_provider, plugin_of, runs_itself, view_for
from edgepack.verifier.confined.answers import BadAnswer, read_answers, whole_numbers
from edgepack.verifier.confined.found import find_sandbox
from edgepack.verifier.confined.limits import RunLimits, limits_for
from edgepack.verifier.confined.needs import interpreter_of, what_it_needs
from edgepack.verifier.confined.program import Ended, confine
from edgepack.verifier.confined.sandbox import View

T = TypeVar("T")
Elsewhere = Callable[[Bundle, Sequence[str | Path], str, RunLimits], Ended]
"""Runs a command of a bundle, with so much input and within such limits, somewhere else than on this host."""

HEXADECIMAL = "hexadecimal"
"""How the proof's own program that calls a library has texts and vectors: bytes as digits."""
NOT_FOUND = 127
"""How a shell or a loader says that something is not there."""
NO_DEVICE = 9
"""How the program says that this device is not what its execution provider needs."""
DAMAGED = 4
"""How the program says that a file of its bundle is missing or damaged."""
LAST_LINES, LONGEST_LINE = 20, 1000
"""Of a program's messages that are shown, and letters of each."""


@dataclass(frozen=True, kw_only=True)
class BundleRunner:
    """How this host runs bundles: nothing of the code that made one is needed, its manifest says the command.

    Each run has limits, and is in a sandbox where this host has one, whoever made the bundle.
    """

    context: BuildContext
    trusted: bool = False
    """Whether what the manifest says that devices have beside the bundle (``platform.has``) is shown: it was made here."""
    prefix: Sequence[str | Path] | None = None
    """What the program is run by, e.g. an emulator of one kind of processor; ``None``: what this host needs for it."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the program sees beside the environment that all runs have."""
    elsewhere: Elsewhere | None = None
    """What runs it in place of this host: a device."""

    def embed(self, bundle: Bundle, texts: Sequence[str]) -> list[list[float]]:
        """Vectors of the texts, float32 values [len(texts), dimension], as the bundle's command makes them.

        Another processor's program runs under an emulator. Raises ``BundleError`` when the program says that its bundle is
        damaged, ``ProofError`` when it fails otherwise or answers something else than vectors, ``CannotRunHere`` when this
        host can neither execute nor emulate it. Where only the device that a bundle needs is missing (a GPU), the exception
        holds the vectors that the bundle makes without: they show a wrong model or tokenizer, and verify nothing.
        """
        try:
            return self.vectors(bundle, texts)
        except CannotRunHere as cannot:
            if not has_provider(bundle):
                raise
            instead = self.vectors(bundle, texts, ["--allow-cpu"])
            raise CannotRunHere(
                f"not on a GPU ({cannot.reason}); these are the processor's", instead=instead
            ) from cannot

    def prompted(self, bundle: Bundle, texts: Sequence[str], purpose: str) -> list[list[float]] | None:
        """Vectors of the texts after the bundle's prompt for a purpose, ``query`` or ``passage``.

        ``None`` where the program is not one of edgepack's and knows no prompts, or its device is missing. Raises what ``embed`` raises.
        """
        return self._optional(bundle, texts, ["--prefix", purpose])

    def shortened(self, bundle: Bundle, texts: Sequence[str], dimension: int) -> list[list[float]] | None:
        """Vectors of the texts that the program itself has cut to so many numbers; ``None`` and errors as of ``prompted``."""
        return self._optional(bundle, texts, ["--dim", str(dimension)], dimension)

    def _optional(
        self, bundle: Bundle, texts: Sequence[str], options: Sequence[str], dimension: int | None = None
    ) -> list[list[float]] | None:
        if not runs_itself(bundle):
            return None
        try:
            return self.vectors(bundle, texts, options, dimension)
        except CannotRunHere:
            return None
        except ProofError:
            if bundle.manifest["runner"]["kind"] in OWN_KINDS:
                raise
            return None

    def at(
        self,
        bundle: Bundle,
        texts: Sequence[str],
        *,
        environment: Mapping[str, str],
        prefix: Sequence[str | Path],
    ) -> list[list[float]]:
        """The bundle's vectors in another environment, run by something else (``verify.proofs.Run``)."""
        return replace(self, environment=environment, prefix=prefix or None).vectors(bundle, texts)

    def tokens(self, bundle: Bundle, texts: Sequence[str]) -> list[list[int]]:
        """The ids that a native program's own tokenizer makes of each text. Raises what ``embed`` raises."""
        said = self._answers(bundle, [bundle.program, "--jsonl", "--tokens"], texts)
        return _read(bundle, "tokens", said, len(texts), whole_numbers)

    def scores(self, bundle: Bundle, texts: Sequence[str | tuple[str, str]]) -> list[list[float]]:
        """Scores of each text, or pair of a query and a text, the scores of the bundle's labels. Raises what ``embed`` raises."""
        model = bundle.manifest["model"]
        pairs = isinstance(texts[0], tuple)
        options = ["--pairs"] if pairs else ["--classify"]
        said = self._answers(bundle, [bundle.program, *options, *JSON_LINES], texts)
        if model["task"] == "rank":
            return _read(bundle, "scores", said, len(texts), lambda row: [float(row["score"])])
        labels = model["labels"]
        return _read(
            bundle,
            "scores",
            said,
            len(texts),
            lambda row: [float(row["scores"][label]) for label in labels],
        )

    def pair_tokens(
        self, bundle: Bundle, pairs: Sequence[tuple[str, str]]
    ) -> list[tuple[list[int], list[int]]]:
        """Ids and types that the program's tokenizer makes of each pair. Raises what ``embed`` raises."""
        said = self._answers(bundle, [bundle.program, "--pairs", "--jsonl", "--tokens"], pairs)
        return _read(bundle, "tokens", said, len(pairs), _pair_of)

    def outputs(self, bundle: Bundle, texts: Sequence[str], *, query: bool) -> list[TextOutputs]:
        """Outputs of a model that gives more than vectors, one a text. Raises what ``embed`` raises."""
        given = bundle.manifest["model"]["outputs"]
        if not runs_itself(bundle):
            # Only vectors come of it, which a sparse encoder's weights are.
            return [_weights_of(vector) for vector in self.vectors(bundle, texts)]
        asked = [f"--{name.replace('_', '-')}" for name in ("sparse", "multi_vector") if name in given]
        side = ["--prefix", "query"] * query
        said = self._answers(bundle, [bundle.program, *asked, *side, *JSON_LINES], texts)
        return _read(bundle, "outputs", said, len(texts), _outputs_of)

    def vectors(
        self,
        bundle: Bundle,
        texts: Sequence[str],
        options: Sequence[str] = (),
        dimension: int | None = None,
    ) -> list[list[float]]:
        """Vectors as of ``embed``, but for what is done where only the device is missing; ``options`` are the program's, and
        ``dimension`` is how many numbers it gives by them.
        """
        if not texts:
            return []
        command = [*command_of(bundle, trusted=self.trusted), *options]
        dimension = dimension or bundle.manifest["model"]["dimension"]
        in_digits = bundle.manifest["runner"].get("lines") == HEXADECIMAL
        if in_digits:
            lines = "".join(f"{text.encode('utf-8', 'surrogatepass').hex()}\n" for text in texts)
            output = self._run(bundle, command, lines)
        else:
            output = self._answers(bundle, command, texts)

        def vector_of(answer: Any) -> list[float]:
            numbers = np.frombuffer(bytes.fromhex(answer), "<f4") if in_digits else answer["embedding"]
            vector = [float(number) for number in numbers]
            if len(vector) != dimension:
                raise ValueError(f"{len(vector)} dimensions, not {dimension}")
            return vector

        return _read(bundle, "vectors", output, len(texts), vector_of)

    def require_server(self, bundle: Bundle) -> None:
        """Have the program's server answer a request of its own, ``embed serve --check``, where the manifest says that it has one.

        Nothing is asked where a server offers nothing of what the model gives. Raises what ``embed`` raises, but for ``CannotRunHere``.
        """
        if not bundle.manifest["runner"].get("serve") or not _is_served(bundle.manifest["model"]):
            return
        try:
            self._run(bundle, [bundle.program, "serve", "--check", "--port", "0"])
        except CannotRunHere:
            return
        self.context.note("its server answered a request")

    def run(
        self,
        bundle: Bundle,
        command: Sequence[str | Path],
        input: str = "",
        *,
        limits: RunLimits | None = None,
    ) -> Ended:
        """Run a command of the bundle's, however it ends. Raises ``CannotRunHere`` and ``BundleError`` as ``embed``."""
        return self._ended(bundle, command, input, limits)[0]

    def _answers(
        self, bundle: Bundle, command: Sequence[str | Path], texts: Sequence[str | tuple[str, str]]
    ) -> str:
        """Output of a command for the texts, or pairs, given as JSON lines."""
        records = (
            {"text": text} if isinstance(text, str) else {"query": text[0], "text": text[1]} for text in texts
        )
        return self._run(bundle, command, "".join(json.dumps(record) + "\n" for record in records))

    def _run(self, bundle: Bundle, command: Sequence[str | Path], input: str = "") -> str:
        ended, limits, view = self._ended(bundle, command, input)
        if ended.code == 0 and ended.passed is None and ended.refused is None:
            return ended.output
        raise failure_of(bundle, ended, limits, view)

    def _ended(
        self, bundle: Bundle, command: Sequence[str | Path], input: str, limits: RunLimits | None = None
    ) -> tuple[Ended, RunLimits, View | None]:
        """How a command ended, and what it was held to."""
        if self.elsewhere is not None:
            limits = limits or limits_for(bundle, input.count("\n"))
            return self.elsewhere(bundle, command, input, limits), limits, None
        prefix = _emulation(bundle, Path(command[0]), self.context) if self.prefix is None else self.prefix
        limits = limits or limits_for(bundle, input.count("\n"))
        words = [*prefix, *command]
        view = view_for(bundle, words, trusted=self.trusted)
        ended = confine(
            words,
            bundle.directory.absolute(),
            sandbox=find_sandbox(),
            view=view,
            work=self.context.work_dir,
            limits=limits,
            environment=self.environment,
            input=input,
            progress=self.context.progress,
        )
        return ended, limits, view


def _read(bundle: Bundle, what: str, said: str, asked: int, read: Callable[[Any], T]) -> list[T]:
    try:
        return read_answers(said, asked, read)
    except BadAnswer as error:
        raise ProofError(f"the program of {bundle.name} answered with invalid {what}: {error}") from error


def _pair_of(answer: Any) -> tuple[list[int], list[int]]:
    """A line of a program's answer. Raises what ``read_answers`` knows."""
    ids, types = map(whole_numbers, answer)
    return ids, types


def _is_served(model: Mapping[str, Any]) -> bool:
    """Not those of classifiers, and of encoders that give vectors of tokens alone."""
    outputs = model.get("outputs", {"dense": True})
    sparse = outputs.get("sparse", {}).get("of") == "vocabulary"
    return model.get("task") != "classes" and (bool(outputs.get("dense")) or sparse)


def _outputs_of(answer: Any) -> TextOutputs:
    """A line of a program's answer. Raises what ``read_answers`` knows."""
    sparse = answer.get("sparse", {"indices": [], "values": []})
    vectors = np.array(answer.get("multi_vector", []), np.float32)
    return TextOutputs(
        sparse=dict(zip(map(int, sparse["indices"]), map(float, sparse["values"]), strict=True)),
        vectors=vectors if vectors.ndim == 2 else np.zeros((0, 0), np.float32),
    )


def _weights_of(vector: Sequence[float]) -> TextOutputs:
    weights = {token: weight for token, weight in enumerate(vector) if weight > 0}
    return TextOutputs(sparse=weights, vectors=np.zeros((0, 0), np.float32))


def _emulation(bundle: Bundle, program: Path, context: BuildContext) -> list[str | Path]:
    """Emulator that the command line begins with where the program is not this host's own kind; else nothing."""
    try:
        built_for = architecture(program)
    except OSError as error:
        raise BundleError(
            f"the program of {bundle.name} cannot be read: {error}", hint="build it again"
        ) from error
    if built_for is None:
        return _of_another_system(bundle, program, context)
    if program.is_relative_to(
        bundle.directory.absolute()
    ):  # and none of the host's, which runs what the bundle holds
        _require_for_device(bundle, program, built_for, context)
    if built_for == platform.machine():
        return []
    processor = find_processor(built_for, context=context)
    best = next(
        (level.emulated for level in reversed(processor.levels if processor else ()) if level.emulated), None
    )
    if best is None:
        raise CannotRunHere(f"the program is for {built_for}, this host is {platform.machine()}")
    try:
        emulator = find_emulator(built_for, context=context)
    except MissingToolError as error:
        raise CannotRunHere(
            f"the program is for {built_for}, this host is {platform.machine()}: {error.message}"
        ) from error
    return emulator.command(best)


def _require_for_device(bundle: Bundle, program: Path, built_for: str, context: BuildContext) -> None:
    """Else a program would be run, and found right, that no device of the bundle can run."""
    if bundle.system == "linux":
        device = bundle.manifest["target"].get("platform", {}).get("arch", built_for)
        fits, wanted = device == built_for, device
    else:
        own = [found for _, found in platforms(context.extensions("platform")) if found.os == bundle.system]
        # What programs look like for a system that has no platform here, its plugin alone knows.
        fits, wanted = not own or any(found.recognizes(program) for found in own), bundle.system
    if not fits:
        raise BundleError(
            f"the program of {bundle.name} is for linux on {built_for}, the bundle is for {wanted}",
            hint="build it again",
        )


def _of_another_system(bundle: Bundle, program: Path, context: BuildContext) -> list[str | Path]:
    try:
        emulator = find_system(bundle.system, program, context=context)
    except MissingToolError as error:
        raise CannotRunHere(f"the program is for {bundle.system}: {error.message}") from error
    return emulator.command(platform.machine()) if emulator else []


def failure_of(
    bundle: Bundle, ended: Ended, limits: RunLimits, view: View | None = None
) -> EdgepackError | CannotRunHere:
    """Error for a failed run: the limit that it passed, what it lacks, or the program's own sentence without its
    hint, which is for the device.
    """
    who, said = plugin_of(bundle), said_by_program(ended.messages)
    if ended.passed is not None:
        return ProofError(f"{who}the program of {bundle.name} {limits.in_words(ended.passed)}")
    if ended.refused is not None:
        return _not_started(bundle, ended, view)
    if ended.code == NO_DEVICE and has_provider(bundle):
        return CannotRunHere(said)
    if view and (needed := what_it_needs(ended, bundle, view)):
        return _not_self_contained(bundle, needed, said)
    if ended.code in (DAMAGED, NOT_FOUND):
        return BundleError(f"the bundle {bundle.name} is damaged: {said}", hint="build it again")
    how = f"it was ended by signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
    return ProofError(f"{who}the program of {bundle.name} failed: {said or how}")


def _not_started(bundle: Bundle, ended: Ended, view: View | None) -> EdgepackError:
    """The kernel, or the sandbox, refused to start it."""
    said = str(ended.refused)
    program = bundle.program
    if not program.exists():
        return BundleError(
            f"the bundle {bundle.name} is damaged: there is no {program.name}", hint="build it again"
        )
    runs = interpreter_of(program)
    if view and runs is not None and not view.has(Path(runs)):
        return _not_self_contained(bundle, runs, said)
    return ProofError(f"{plugin_of(bundle)}the program of {bundle.name} cannot be started here: {said}")


def _not_self_contained(bundle: Bundle, needed: str, said: str) -> ProofError:
    return ProofError(
        f"{plugin_of(bundle)}the program of {bundle.name} needs {needed}, which is not in the bundle: {said}",
        hint="lay it into the bundle, or have the target say that its devices have it: platform.has",
    )


def said_by_program(messages: str) -> str:
    """The program's own last words, without its hint."""
    lines = (foreign(line[:LONGEST_LINE]) for line in messages.strip().splitlines()[-LAST_LINES:])
    return re.sub(r"^(error: |hint: .*)", "", "\n".join(lines), flags=re.MULTILINE).strip()
