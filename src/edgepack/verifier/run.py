"""A bundle's own vectors: its command, run by the host as a device would run it, with an empty environment."""

import json
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgepack import tools
from edgepack.bundles.manifest import JSON_LINES
from edgepack.context import BuildContext
from edgepack.errors import BundleError, CannotRunHere, EdgepackError, MissingToolError, ProofError, ToolError
from edgepack.files.elf import architecture
from edgepack.foundry.platforms import platforms
from edgepack.foundry.processors.known import find_processor
from edgepack.foundry.proof.emulator import find_emulator, find_system
from edgepack.models.token_reference import TextOutputs
from edgepack.records.bundle import Bundle
from edgepack.verifier.limits import OUTPUT, SECONDS, limits_for, timed_out, wrote_too_much
from edgepack.verifier.sandbox import Sandbox

OWN_KINDS = ("native", "pyinstaller")
"""Of edgepack's own programs, as manifests name them."""
NOT_FOUND = 127
"""How ``env`` says that there is no such program."""
NO_DEVICE = 9
"""How the program says that this device is not what its execution provider needs."""
SOCKET = "/tmp/embed.sock"
"""Of a server in the sandbox, where /tmp is empty and nobody else's."""
DAMAGED = 4
"""How the program says that a file of its bundle is missing or damaged."""


@dataclass(frozen=True, kw_only=True)
class BundleRunner:
    """How this host runs bundles: nothing of the code that made one is needed, its manifest says the command."""

    context: BuildContext
    sandbox: Sandbox | None = None
    """Where the program runs; ``None``: as any program of the user's."""
    limited: bool = False
    """Whether a run is ended that takes too long or too much memory."""
    prefix: Sequence[str | Path] | None = None
    """What the program is run by, e.g. an emulator of one kind of processor; ``None``: what this host needs for it."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """All that the program sees of an environment."""

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
            if not _has_provider(bundle):
                raise
            instead = self.vectors(bundle, texts, ["--allow-cpu"])
            raise CannotRunHere(
                f"not on a GPU ({cannot.reason}); these are the processor's", instead=instead
            ) from cannot

    def prompted(self, bundle: Bundle, texts: Sequence[str], purpose: str) -> list[list[float]] | None:
        """Vectors of the texts after the bundle's prompt for a purpose, ``query`` or ``passage``.

        ``None`` where the program is not one of edgepack's and knows no prompts, or its device is missing. Raises what ``embed`` raises.
        """
        runner = bundle.manifest["runner"]
        if (runner.get("command") or [""])[0] != runner["program"]:
            return None
        try:
            return self.vectors(bundle, texts, ["--prefix", purpose])
        except CannotRunHere:
            return None
        except ProofError:
            if runner["kind"] in OWN_KINDS:
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
        try:
            made = [json.loads(line) for line in said.splitlines()]
        except ValueError as error:
            raise ProofError(f"the program of {bundle.name} answered with invalid tokens: {error}") from error
        if len(made) != len(texts):
            raise ProofError(
                f"the program of {bundle.name} gave tokens of {len(made)} texts for {len(texts)}"
            )
        return made

    def scores(self, bundle: Bundle, texts: Sequence[str | tuple[str, str]]) -> list[list[float]]:
        """Of each text, or pair of a query and a text, the scores of the bundle's labels. Raises what ``embed`` raises."""
        model = bundle.manifest["model"]
        pairs = isinstance(texts[0], tuple)
        options = ["--pairs"] if pairs else ["--classify"]
        said = self._answers(bundle, [bundle.program, *options, *JSON_LINES], texts)
        try:
            rows = [json.loads(line) for line in said.splitlines()]
            if model["task"] == "rank":
                return [[float(row["score"])] for row in rows]
            return [[float(row["scores"][label]) for label in model["labels"]] for row in rows]
        except (ValueError, KeyError, TypeError) as error:
            raise ProofError(f"the program of {bundle.name} answered with invalid scores: {error}") from error

    def pair_tokens(
        self, bundle: Bundle, pairs: Sequence[tuple[str, str]]
    ) -> list[tuple[list[int], list[int]]]:
        """Ids and types that the program's tokenizer makes of each pair. Raises what ``embed`` raises."""
        said = self._answers(bundle, [bundle.program, "--pairs", "--jsonl", "--tokens"], pairs)
        try:
            return [(ids, types) for ids, types in map(json.loads, said.splitlines())]
        except (ValueError, TypeError) as error:
            raise ProofError(f"the program of {bundle.name} answered with invalid tokens: {error}") from error

    def outputs(self, bundle: Bundle, texts: Sequence[str], *, query: bool) -> list[TextOutputs]:
        """What a model of other outputs gives of each text. Raises what ``embed`` raises."""
        given = bundle.manifest["model"]["outputs"]
        if (bundle.manifest["runner"].get("command") or [""])[0] != bundle.manifest["runner"]["program"]:
            # Only vectors come of it, which a sparse encoder's weights are.
            return [_weights_of(vector) for vector in self.vectors(bundle, texts)]
        asked = [f"--{name.replace('_', '-')}" for name in ("sparse", "multi_vector") if name in given]
        side = ["--prefix", "query"] * query
        said = self._answers(bundle, [bundle.program, *asked, *side, *JSON_LINES], texts)
        try:
            return [_outputs_of(json.loads(line)) for line in said.splitlines()]
        except (ValueError, KeyError, TypeError) as error:
            raise ProofError(
                f"the program of {bundle.name} answered with invalid outputs: {error}"
            ) from error

    def vectors(self, bundle: Bundle, texts: Sequence[str], options: Sequence[str] = ()) -> list[list[float]]:
        """As ``embed``, but for what is done where only the device is missing; ``options`` are the program's."""
        if not texts:
            return []
        output = self._answers(bundle, [*command_of(bundle), *options], texts)
        try:
            vectors = [
                [float(number) for number in json.loads(line)["embedding"]] for line in output.splitlines()
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise ProofError(
                f"the program of {bundle.name} answered with invalid vectors: {error}"
            ) from error
        dimension = bundle.manifest["model"]["dimension"]
        if len(vectors) != len(texts) or any(len(vector) != dimension for vector in vectors):
            raise ProofError(
                f"the program of {bundle.name} gave {len(vectors)} vectors for {len(texts)} texts, "
                f"or not of {dimension} dimensions"
            )
        return vectors

    def require_server(self, bundle: Bundle) -> None:
        """Have the program's server answer a request of its own, ``embed serve --check``, where the manifest says that it has one.

        In a sandbox, which has no network, on a socket in the sandbox's own /tmp; there a program for Windows, which has no such
        sockets, is not asked. Nothing is asked of a server of scores or of other outputs than vectors. Raises what ``embed`` raises, but for ``CannotRunHere``.
        """
        model = bundle.manifest["model"]
        if not bundle.manifest["runner"].get("serve") or "task" in model or "outputs" in model:
            return
        if self.sandbox is not None and bundle.system == "windows":
            return
        where = ["--port", "0"] if self.sandbox is None else ["--unix", SOCKET]
        try:
            self._run(bundle, [bundle.program, "serve", "--check", *where])
        except CannotRunHere:
            return
        self.context.note("its server answered a request")

    def _answers(
        self, bundle: Bundle, command: Sequence[str | Path], texts: Sequence[str | tuple[str, str]]
    ) -> str:
        """What a command says of the texts, or pairs, given as JSON lines."""
        records = (
            {"text": text} if isinstance(text, str) else {"query": text[0], "text": text[1]} for text in texts
        )
        return self._run(bundle, command, "".join(json.dumps(record) + "\n" for record in records))

    def _run(self, bundle: Bundle, command: Sequence[str | Path], input: str = "") -> str:
        """What a command says."""
        prefix = _emulation(bundle, Path(command[0]), self.context) if self.prefix is None else self.prefix
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        program = [*prefix, *command]
        if "=" in str(program[0]):  # env would take it for a variable
            program = ["nice", "-n", "0", *program]
        words = [*self._around(bundle, program), "env", "-i", *variables, *program]
        try:
            return self.context.run(words, cwd=bundle.directory, input=input)
        except ToolError as error:
            if f"exit code {NO_DEVICE}" in error.message and _has_provider(bundle):
                raise CannotRunHere(said_by_program(error)) from error
            if self.limited and timed_out(error):
                raise ProofError(f"the program of {bundle.name} did not end within {SECONDS} s") from error
            if self.limited and wrote_too_much(error):
                raise ProofError(
                    f"the program of {bundle.name} wrote more than {OUTPUT >> 20} MiB"
                ) from error
            raise failure_of(bundle, error) from error

    def _around(self, bundle: Bundle, program: Sequence[str | Path]) -> list[str | Path]:
        """What the command line begins with: limits, then the sandbox, which shows the bundle and what runs it."""
        words: list[str | Path] = [*limits_for(bundle).command()] if self.limited else []
        if self.sandbox is not None:
            inside = bundle.directory.absolute()
            outside = [word for word in program if isinstance(word, Path) and not word.is_relative_to(inside)]
            # A program's own libraries lie beside it.
            readable = [word if word.is_dir() else word.resolve().parent for word in outside]
            words += self.sandbox.command(inside, readable=readable, gpu=_has_provider(bundle))
        return words


def _outputs_of(answer: Mapping[str, Any]) -> TextOutputs:
    """A line of a program's answer. Raises ``ValueError``, ``KeyError`` or ``TypeError``."""
    sparse = answer.get("sparse", {"indices": [], "values": []})
    vectors = np.array(answer.get("multi_vector", []), np.float32)
    return TextOutputs(
        sparse=dict(zip(map(int, sparse["indices"]), map(float, sparse["values"]), strict=True)),
        vectors=vectors if vectors.ndim == 2 else np.zeros((0, 0), np.float32),
    )


def _weights_of(vector: Sequence[float]) -> TextOutputs:
    weights = {token: weight for token, weight in enumerate(vector) if weight > 0}
    return TextOutputs(sparse=weights, vectors=np.zeros((0, 0), np.float32))


def command_of(bundle: Bundle) -> list[str | Path]:
    """The words of the bundle's command, paths in the bundle made absolute.

    Raises ``CannotRunHere`` when no host can run it, or a program of the host's is not installed.
    """
    runner = bundle.manifest["runner"]
    words = runner.get("command", [runner["program"], *JSON_LINES])
    if words is None:
        raise CannotRunHere("its program runs on the device alone")
    inside = {runner["program"], *(file["path"] for file in bundle.manifest["files"])}
    root = bundle.directory.absolute()
    placed: list[str | Path] = [root / word if word in inside else word for word in words]
    if not words or isinstance(placed[0], Path):
        return placed or [bundle.program, *JSON_LINES]
    try:
        return [tools.find(words[0]), *placed[1:]]
    except MissingToolError as error:
        raise CannotRunHere(f"{error.message}; {error.hint}" if error.hint else error.message) from error


def _has_provider(bundle: Bundle) -> bool:
    return bool((bundle.manifest["runtime"] or {}).get("provider"))


def _emulation(bundle: Bundle, program: Path, context: BuildContext) -> list[str | Path]:
    """What the command line begins with where the program is not this host's own kind; else nothing."""
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


def failure_of(bundle: Bundle, error: ToolError) -> EdgepackError:
    """What a failed run means: the program's own sentence, without its hint, which is for the device."""
    found = re.search(r"exit code (\d+)", error.message)
    said = said_by_program(error)
    if found and int(found[1]) in (DAMAGED, NOT_FOUND):
        return BundleError(f"the bundle {bundle.name} is damaged: {said}", hint="build it again")
    return ProofError(f"the program of {bundle.name} failed: {said or error.message}")


def said_by_program(error: ToolError) -> str:
    """The program's own sentence, without its hint."""
    return re.sub(r"^(error: |hint: .*)", "", error.message.partition("\n")[2], flags=re.MULTILINE).strip()
