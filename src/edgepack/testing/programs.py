"""Checks of a finished bundle: moved, run on strange texts, with files of it made unreadable."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from edgepack.bundles.manifest import digest, open_bundle
from edgepack.errors import BundleError, CannotRunHere, EdgepackError
from edgepack.files.elf import architecture
from edgepack.records.model import FLOAT_PRECISIONS
from edgepack.records.target import FORMATS
from edgepack.testing.built import build_here, changed_copy, running
from edgepack.testing.check import Broken, NotSeen, check
from edgepack.testing.kit import TargetSubject
from edgepack.verifier.command import command_of
from edgepack.verifier.confined.limits import limits_for
from edgepack.verifier.confined.program import Ended, confine
from edgepack.verifier.confined.sandbox import View
from edgepack.verifier.copies import SAME

if TYPE_CHECKING:
    from edgepack.records.bundle import Bundle

COMMAND = "docs/runner.md#the-command-that-the-host-runs"
ELSEWHERE = "a place with spaces, ümläute and 日本語"
STRANGE = {
    "an empty text": "",
    "one space": " ",
    "a text of 3,000 words": "word " * 3000,
    "a NUL": "a\0b",
    "a newline": "two\nlines",
    "a carriage return and a tab": "\r\t",
    "emoji": "🚀🔥🎉👩‍👩‍👧",
    "combining marks": "e\u0301\u0323 n\u0303" * 5,
    "special tokens": "[CLS] [SEP] [PAD] <s> </s> <|endoftext|>",
    "a lone surrogate": "\ud800 and \udfff",
    "a quote and a backslash": '"\\" \\u0041',
    "right to left": "שלום עולם \u202eabc",
    "no letters": "\u200b\ufeff",
    "a long word": "x" * 5000,
}
PLAIN = (
    "a small model",
    "the river",
    "What is a vector?",
    "water, coffee and bread",
    "Paper music",
    "a",
    "0123",
)
FUZZ = 2000
"""Texts that the tokenizer is tried on where only vectors show it; with ids the host tries 4,000."""
CLOSE = 0.999
NO_TEXT = 2
"""How the program may say that there was none."""


def _lowest(ours: Sequence[Sequence[float]], others: Sequence[Sequence[float]]) -> float:
    import numpy as np

    from edgepack.verifier.metrics import lowest_cosine

    return lowest_cosine(np.asarray(ours, np.float32), np.asarray(others, np.float32))


@cache
def _plain(subject: TargetSubject) -> list[list[float]]:
    return running(subject, list(PLAIN))


@check(
    "verifies-elsewhere",
    "A bundle that was moved is verified without the plugin, in a folder with spaces and other letters that nobody may write to.",
    section="docs/plugins.md#a-builder",
)
def verifies_elsewhere(subject: TargetSubject) -> None:
    before = subject.built.digest()
    _plain(subject)
    with changed_copy(subject, ELSEWHERE) as moved:
        folders = [moved.directory, *(path for path in moved.directory.rglob("*") if path.is_dir())]
        for folder in folders:
            folder.chmod(0o555)
        try:
            done = subject.kit.edgepack(
                *("verify", moved.directory, "-m", subject.model, "--offline"),
                env={"EDGEPACK_DISABLE_PLUGINS": "*"},
            )
            after = digest(open_bundle(moved.directory))
        finally:
            for folder in folders:
                folder.chmod(0o755)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith(("error:", "hint:"))]
        raise Broken(
            "\n       ".join(lines) or done.stderr[-300:],
            do="find files beside the program, by its own path; write nowhere; read nothing of the machine that built it",
        )
    if before != after:
        raise Broken("its digest is another", do="write nowhere")


@check("unchanged-by-running", "Running the program changes no file of its bundle.", section=COMMAND)
def unchanged_by_running(subject: TargetSubject) -> None:
    _require_own_kind(subject.built.bundle)
    texts = [*PLAIN, *STRANGE.values()]
    running(subject, texts)
    # Not in a sandbox, which lets nothing be written: on a device the program may do so.
    _run(subject, subject.built.bundle, "".join(json.dumps({"text": text}) + "\n" for text in texts))
    try:
        subject.built.digest()
    except BundleError as error:
        raise Broken(
            error.message, do="write elsewhere, or not at all: devices keep the folder read-only"
        ) from error


@check(
    "same-twice", "The same texts get the same vectors, in any order, alone or among others.", section=COMMAND
)
def same_twice(subject: TargetSubject) -> None:
    first = _plain(subject)
    if running(subject, list(PLAIN)) != first:
        raise Broken("a second run gave other numbers", do="seed what is random, or take it out")
    backwards = running(subject, list(reversed(PLAIN)))[::-1]
    alone = [running(subject, [text])[0] for text in PLAIN[:3]]
    limit = subject.target.model.min_batch_cosine or CLOSE
    for ours, others, what in ((first, backwards, "in another order"), (first[:3], alone, "alone")):
        if (found := _lowest(ours, others)) < limit:
            raise Broken(
                f"{what} a text's vector has cosine {found:.4f} to its own",
                do="leave padding out of attention and pooling; keep answers in the order of the lines",
            )


@check(
    "takes-strange-texts",
    "Every text gets a vector, finite and of length 1 where the model normalizes: empty, long, with control characters; "
    "no texts get none.",
    section=COMMAND,
)
def takes_strange_texts(subject: TargetSubject) -> None:
    import numpy as np

    for what, vector in zip(STRANGE, _strange(subject), strict=True):
        length = float(np.linalg.norm(np.asarray(vector)))
        if not np.isfinite(length):
            raise Broken(
                f"{what}: its vector is not finite", do="a text without tokens is one token of padding"
            )
        if subject.source.pooling.unit and abs(length - 1) > 1e-3:
            raise Broken(f"{what}: its vector has length {length:.4f}", do="normalize as the model does")
    if not _is_of_this_host(subject.built.bundle):
        return  # what an emulator is asked for is a vector at least
    done = _run(subject, subject.built.bundle, "")
    if done.code not in (0, NO_TEXT) or done.output.strip():
        raise Broken(
            f"without a line it ended with {done.code} and wrote {done.output[:40]!r}",
            do=f"no lines, no vectors, exit code 0 or {NO_TEXT}",
        )


def _strange(subject: TargetSubject) -> list[list[float]]:
    """Vectors of all strange texts; what the program cannot take is found by asking for one at a time."""
    try:
        return running(subject, list(STRANGE.values()))
    except EdgepackError as failed:
        for what, text in STRANGE.items():
            try:
                running(subject, [text])
            except EdgepackError as error:
                raise Broken(
                    f"{what}: {error.message}",
                    do="every JSON string is a text; U+FFFD stands for half a surrogate",
                ) from error
        raise Broken(failed.message, do="it takes each of the texts alone, and not all of them") from failed


def _run(subject: TargetSubject, bundle: Bundle, lines: str) -> Ended:
    """The bundle's command itself, in its folder, within limits, and where it may write: no sandbox. Raises ``Broken`` at a limit."""
    _plain(subject)  # which says where it cannot run here
    context, limits = subject.kit.context(), limits_for(bundle, lines.count("\n"))
    ended = confine(
        command_of(bundle, trusted=True),
        bundle.directory.absolute(),
        sandbox=None,
        view=View(),
        work=context.work_dir,
        limits=limits,
        input=lines,
    )
    if ended.passed is not None:
        raise Broken(f"it {limits.in_words(ended.passed)}", do="end when standard input ends")
    if ended.refused is not None:
        raise Broken(f"it cannot be started: {ended.refused}", do="its command begins with its program")
    return ended


def _is_of_this_host(bundle: Bundle) -> bool:
    return architecture(bundle.program) in (None, platform.machine())


def _require_own_kind(bundle: Bundle) -> None:
    """``NotSeen`` for a program that this host runs through something else: its command line is seen through that."""
    if not _is_of_this_host(bundle):
        raise NotSeen(f"its program is for {architecture(bundle.program)}, this host is {platform.machine()}")


@check(
    "speaks-json-lines",
    "The program answers JSON lines as docs/runner.md says: a line each, in order, numbers in `embedding`, exit code 0.",
    section=COMMAND,
)
def speaks_json_lines(subject: TargetSubject) -> None:
    bundle = subject.built.bundle
    _require_own_kind(bundle)
    asked = [{"id": 7, "text": "a small model"}, {"text": "the river", "tags": ["x", None]}]
    done = _run(subject, bundle, "".join(json.dumps(each) + "\n" for each in asked))
    if done.code:
        raise Broken(
            f"it ended with {done.code}: {done.messages[:200]}", do="other keys than `text` are ignored"
        )
    lines = done.output.splitlines()
    try:
        vectors = [json.loads(line)["embedding"] for line in lines]
    except (ValueError, KeyError, TypeError) as error:
        raise Broken(
            f"a line is {lines[0][:80]!r}", do='write {"embedding": […]} a line, and nothing else'
        ) from error
    dimension = bundle.manifest["model"]["dimension"]
    if [len(vector) for vector in vectors] != [dimension] * len(asked):
        raise Broken(
            f"{len(vectors)} vectors of {[*map(len, vectors)]} for {len(asked)} texts", do="one a line"
        )
    without_newline = _run(subject, bundle, json.dumps(asked[0]))
    if without_newline.code or len(without_newline.output.splitlines()) != 1:
        raise Broken(
            "a last line without a line feed got no answer", do="the end of the input ends a line, too"
        )
    bad = _run(subject, bundle, "{no json\n")
    if bad.code == 0 or not bad.messages.strip():
        raise Broken(
            f"a line that is no JSON: it ended with {bad.code} and said {bad.messages[:60]!r}",
            do="a code that is not 0, and a line on standard error that says why",
        )


@check(
    "needs-its-files",
    "With zeros in the place of its program, model, tokenizer or runtime a bundle fails, or gives other vectors: it uses them.",
    section=COMMAND,
)
def needs_its_files(subject: TargetSubject) -> None:
    before = _plain(subject)
    bundle = subject.built.bundle
    by_part: dict[str, list[str]] = {"program": [bundle.manifest["runner"]["program"]]}
    for file in bundle.manifest["files"]:
        if file["part"] in ("model", "tokenizer", "runtime") and file["mode"] != "link":
            by_part.setdefault(file["part"], []).append(file["path"])
    for part, paths in by_part.items():
        with changed_copy(subject, f"{part}-of-zeros") as copy:
            for path in paths:
                size = (copy.directory / path).stat().st_size
                (copy.directory / path).write_bytes(bytes(size))
            try:
                after = running(subject, list(PLAIN), bundle=copy)
            except (EdgepackError, CannotRunHere, NotSeen):
                continue
        if _lowest(before, after) > SAME:
            raise Broken(
                f"with zeros for its {part} ({', '.join(paths[:3])}) it gives the same vectors",
                do="what ships is what is used: read it, and fail when it is damaged; leave out what nothing reads",
            )


@check(
    "says-what-is-missing",
    "Without its model the program ends with a code that is not 0, and says why on standard error.",
    section="docs/runner.md#exit-codes",
)
def says_what_is_missing(subject: TargetSubject) -> None:
    _require_own_kind(subject.built.bundle)
    models = [file["path"] for file in subject.built.bundle.manifest["files"] if file["part"] == "model"]
    with changed_copy(subject, "no-model") as copy:
        for path in models:
            (copy.directory / path).unlink()
        done = _run(subject, copy, '{"text": "a"}\n')
    if done.code == 0:
        raise Broken(f"without {models[0]} it ended with 0", do="end with 4: a file of the bundle is missing")
    if not done.messages.strip():
        raise Broken(f"without {models[0]} it said nothing", do="say on standard error which file is missing")


@check(
    "tokenizes-alike",
    "The bundle's tokenizer makes the ids of Hugging Face's, for texts of every script.",
    section=COMMAND,
)
def tokenizes_alike(subject: TargetSubject) -> None:
    from tokenizers import Tokenizer

    from edgepack.models.read.tokenizer import minimal_json
    from edgepack.models.reference import embed_with_onnxruntime
    from edgepack.verifier.texts.fuzz import fuzz_texts_for

    source = subject.source
    tokenizer = Tokenizer.from_str(minimal_json(source))
    texts = list(fuzz_texts_for(tokenizer, FUZZ, seed=20261122))
    ours = running(subject, texts)
    theirs = embed_with_onnxruntime(_stock_file(subject), source, texts).tolist()
    for text, mine, other in zip(texts, ours, theirs, strict=True):
        if (found := _lowest([mine], [other])) < CLOSE:
            ids = tokenizer.encode(text).ids[:8]
            raise Broken(
                f"cosine {found:.4f} to the shipped model's own vector for {text[:60]!r} (ids {ids} …)",
                do="read the bundle's tokenizer.json with the library `tokenizers`, or api.tokenizer_tables",
            )


def _stock_file(subject: TargetSubject) -> Path:
    """Model file from which the stock ONNX Runtime makes the bundle's vectors; ``NotSeen`` where there is no such file."""
    from edgepack.models.reference import exported_model

    model = build_here(subject).records["prepare_model"]
    file: Path | None = model.oracle or model.cpu_file or (model.file if model.format in FORMATS else None)
    if file is None and model.precision not in FLOAT_PRECISIONS:
        raise NotSeen(f"a model in format {model.format} has no oracle to compare single texts with")
    return file or exported_model(subject.source, context=subject.kit.context())


CHECKS = (
    verifies_elsewhere,
    unchanged_by_running,
    same_twice,
    takes_strange_texts,
    speaks_json_lines,
    needs_its_files,
    says_what_is_missing,
    tokenizes_alike,
)
