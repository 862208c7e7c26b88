"""Compiling, one object at a time: in parallel, resumable, each object checked before it is used again."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepack.context import BuildContext
from edgepack.errors import ToolError
from edgepack.files.store import disk_errors, key_of, sha256_of, written_beside
from edgepack.foundry.compile.precompiled import Header, Headers
from edgepack.foundry.symbols import Symbols

FILE = 2.0
"""Seconds of processor time of a file, about: of ONNX Runtime 1.2 with precompiled headers and 4 without, of the program 1.5."""
WORTH_SAYING = 10.0
"""Seconds of compiling from which people are told of it beforehand."""


@dataclass(frozen=True, kw_only=True)
class CompileJob:
    name: str
    """For people and logs."""
    object: Path
    command: tuple[str, ...]
    """Without the output."""
    identity: str
    """Digest of all that the object depends on, wherever the folders are."""
    header: Header | None = None
    """What may be compiled beforehand: the object is the same with it and without."""
    long: bool = False
    """Whether it takes so long that the others had better not wait for it at the end."""


def compile_objects(
    jobs: Iterable[CompileJob],
    *,
    read: Callable[[Path], Symbols],
    log_file: Path,
    label: str = "compile",
    context: BuildContext,
) -> Mapping[str, Symbols]:
    """Make sure of every job's object; name → its symbols, as ``read`` finds them in the object.

    An object that is there, undamaged and of the same identity is not compiled again. What a killed build was
    working on is not mistaken for an object: objects are written beside and renamed, then recorded. Only one process
    at a time may be doing this for the same objects: hold the archive's lock.
    Raises ``ToolError`` for the first source that does not compile, ``DiskFullError``.
    """
    wanted = list(jobs)
    found = {job.name: _recorded(job) for job in wanted}
    todo = [job for job in wanted if found[job.name] is None]
    done = {name: record for name, record in found.items() if record is not None}
    if todo:
        with (
            disk_errors(log_file),
            context.progress(label, len(todo), unit="files", before=foretold(len(todo))) as bar,
            ThreadPoolExecutor(compilers()) as pool,
        ):
            log_file.parent.mkdir(parents=True, exist_ok=True)
            # A launcher keeps objects by what they are made of, and knows nothing of compiled headers.
            taken = [] if _launcher() else [job.header for job in todo if job.header]
            folder = context.work_dir / "precompiled"
            headers = Headers(taken, pool, folder=folder, log_file=log_file, context=context)
            # Meanwhile, what needs none.
            todo.sort(key=lambda job: (not job.long, job.header in headers))
            running = {pool.submit(_compile, job, headers, read, log_file, context): job for job in todo}
            for future in running:
                future.add_done_callback(lambda _: bar.advance())
            try:
                finished, pending = wait(running, return_when=FIRST_EXCEPTION)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            for future in pending:
                future.cancel()
            for future in finished:
                done[running[future].name] = future.result()
    return done


def foretold(files: int, workers: int | None = None) -> str:
    """How long that many files will take, and why they are compiled; nothing where it is over at once."""
    workers = workers or compilers()
    seconds = files * FILE / max(1, min(files, workers))
    if seconds < WORTH_SAYING:
        return ""
    time = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
    on = "1 processor" if workers == 1 else f"{workers} processors"
    return (
        f"{files} files to compile, about {time} on {on} that have nothing else to do: the cache has none of them for this "
        "target and these options; it keeps them for the next bundle"
    )


def compiled_already(jobs: Iterable[CompileJob]) -> Mapping[str, Symbols] | None:
    """Result of ``compile_objects`` when nothing is left to compile, else ``None``; no lock is needed for that."""
    found = {}
    for job in jobs:
        record = _recorded(job)
        if record is None:
            return None
        found[job.name] = record
    return found


def compilers() -> int:
    """Number of compilers at once: as many as this process may use processors, or what ``EDGEPACK_JOBS`` says."""
    named = os.environ.get("EDGEPACK_JOBS", "")
    return max(1, int(named)) if named.isdigit() else len(os.sched_getaffinity(0))


def _compile(
    job: CompileJob,
    headers: Headers,
    read: Callable[[Path], Symbols],
    log_file: Path,
    context: BuildContext,
) -> Symbols:
    for left_by_a_killed_build in job.object.parent.glob(f".{job.object.name}*-*"):
        left_by_a_killed_build.unlink(missing_ok=True)
    with written_beside(job.object) as beside:
        command: list[str | Path] = [*_launcher(), *job.command, "-o", beside]
        if not _compiled_with(headers.flags(job.header), command, log_file, context):
            try:
                context.run(command, log_file=log_file)
            except ToolError as error:
                raise ToolError(f"{job.name} does not compile: {error.message}", hint=error.hint) from error
        found = read(beside)
        sha256 = sha256_of(beside)
    record = {
        "identity": job.identity,
        "sha256": sha256,
        "defines": sorted(found.defines),
        "weak": sorted(found.weak),
        "needs": sorted(found.needs),
    }
    with written_beside(record_of(job.object)) as beside:
        beside.write_text(json.dumps(record))
    return found


def _compiled_with(
    header: Sequence[str], command: Sequence[str | Path], log_file: Path, context: BuildContext
) -> bool:
    """Whether the source was compiled with a header; without one it says better what is wrong with it."""
    try:
        return bool(header) and context.run([*command, *header], log_file=log_file) is not None
    except ToolError:
        return False


def _recorded(job: CompileJob) -> Symbols | None:
    """The symbols of an object that is sound and that job's, else nothing."""
    record = sound_record(job.object)
    return _symbols_of(record) if record is not None and record["identity"] == job.identity else None


def recorded_symbols(object: Path) -> Symbols | None:
    """The symbols of an object that is sound, whatever it was compiled for, else nothing."""
    record = sound_record(object)
    return None if record is None else _symbols_of(record)


def _symbols_of(record: Mapping[str, Any]) -> Symbols | None:
    try:
        return Symbols(
            defines=frozenset(record["defines"]),
            weak=frozenset(record["weak"]),
            needs=frozenset(record["needs"]),
        )
    except (KeyError, TypeError):
        return None


def sound_record(object: Path) -> dict[str, Any] | None:
    """Record of an object, if the object is still what was compiled, else ``None``."""
    try:
        record: dict[str, Any] = json.loads(record_of(object).read_text())
        return record if record["identity"] and record["sha256"] == sha256_of(object) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def record_of(object: Path) -> Path:
    return object.with_name(object.name + ".json")


def _launcher() -> Sequence[str]:
    """ccache, sccache or distcc, named as CMake's users name them."""
    return os.environ.get("CMAKE_CXX_COMPILER_LAUNCHER", "").replace(";", " ").split()


def identity_of(*parts: str) -> str:
    """A digest of texts, in their order."""
    return key_of({str(index): part for index, part in enumerate(parts)})
