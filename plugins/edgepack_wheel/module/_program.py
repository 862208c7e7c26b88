"""The bundle's program as a child process that stays: JSON lines in, JSON lines out."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import selectors
import subprocess
import sys
import threading
import weakref
from typing import IO

from ._errors import EmbedError, refusal

JSON_LINES = ("--jsonl", "--out", "jsonl", "--id-field", "id")
CHUNK = 1 << 16


class Program:
    """One child at most; it starts with the first texts, and again when it was killed. It ends with this process.

    That is so however this process ends: the child's standard input closes. It is in a session of its own, so that Ctrl-C
    in a terminal is this process's alone.
    """

    def __init__(self, command: list[str]) -> None:
        self._command = [*command, *JSON_LINES]
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        _programs.add(self)

    def embed(self, texts: list[str]) -> list[list[float]]:
        """A vector for each text. Raises ``ValueError`` or ``EmbedError``."""
        lines = "".join(json.dumps({"id": at, "text": text}) + "\n" for at, text in enumerate(texts))
        with self._lock:
            child = self._running()
            try:
                answers = _exchange(child, lines.encode(), len(texts))
            except BaseException:
                # It may have half of a question: what it says next would answer that.
                self._end()
                raise
        return [json.loads(answer)["embedding"] for answer in answers]

    def close(self) -> None:
        with self._lock:
            self._end()

    def forget(self) -> None:
        """In a forked process: the child is the parent's, and must see no other end of its input than the parent's."""
        self._lock = threading.Lock()
        if self._child is not None:
            _close(self._child)
            # Nobody here waits for it.
            self._child.returncode = 0
            self._child = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is not None and self._child.poll() is not None:
            self._end()
        if self._child is None:
            self._child = _start(self._command)
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            _close(child)
            child.wait()


_programs: weakref.WeakSet[Program] = weakref.WeakSet()


def forget_programs() -> None:
    for program in list(_programs):
        program.forget()


@atexit.register
def _close_programs() -> None:
    for program in list(_programs):
        program.close()


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        raise EmbedError(f"{command[0]} does not start: {error.strerror}", 5) from error
    for stream in (child.stdin, child.stdout):
        assert stream is not None
        os.set_blocking(stream.fileno(), False)
    return child


def _streams(child: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    return child.stdin, child.stdout, child.stderr


def _close(child: subprocess.Popen[bytes]) -> None:
    for stream in _streams(child):
        stream.close()


def _exchange(child: subprocess.Popen[bytes], question: bytes, count: int) -> list[bytes]:
    """So many lines of answer. All pipes at once: a child that waits for room to say something takes no more questions."""
    rest, answer, lines, words = memoryview(question), [b""], 0, b""
    to_child, from_child, aside = _streams(child)
    with selectors.DefaultSelector() as ready:
        ready.register(to_child, selectors.EVENT_WRITE)
        ready.register(from_child, selectors.EVENT_READ)
        ready.register(aside, selectors.EVENT_READ)
        while lines < count:
            for key, _ in ready.select():
                if key.fileobj is from_child:
                    chunk = os.read(key.fd, CHUNK)
                    if not chunk:
                        raise _said_at_the_end(child, words)
                    answer.append(chunk)
                    lines += chunk.count(b"\n")
                elif key.fileobj is aside:
                    chunk = os.read(key.fd, CHUNK)
                    if not chunk:
                        ready.unregister(aside)
                    words = _passed_on(words + chunk) if len(words) > CHUNK else words + chunk
                else:
                    rest = rest[_written(key.fd, rest[:CHUNK]) :]
                    if not rest:
                        ready.unregister(to_child)
    _passed_on(words)
    return b"".join(answer).split(b"\n")[:count]


def _passed_on(words: bytes) -> bytes:
    """Nothing is left: what a module in the program prints goes to this process's standard error."""
    if words and sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):  # nobody reads it, or it is closed
            sys.stderr.write(words.decode("utf-8", "replace"))
    return b""


def _written(descriptor: int, data: memoryview) -> int:
    """How much a pipe took; all of it where nobody reads any more, which the other pipe says, too."""
    try:
        return os.write(descriptor, data)
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(data)


def _said_at_the_end(child: subprocess.Popen[bytes], before: bytes) -> Exception:
    words = (before + _streams(child)[2].read()).decode("utf-8", "replace").splitlines()
    code = child.wait()
    if code < 0:
        return EmbedError(f"the bundle's program was ended by signal {-code}", 1)
    said = [line.partition(": ")[2] for line in words if line.startswith(("error: ", "hint: "))]
    return refusal("; ".join(said) or f"the bundle's program ended with code {code}", code)
