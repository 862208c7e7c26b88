"""A user's own module around the model: ``prepare(texts)`` before it, ``finish(vectors, texts)`` behind it.

Standard library only, and nothing of edgepack: this file is frozen into the program, and runs by itself in a process of the host's,
so that the full-precision model is judged with the same module.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock
from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LARGEST = 3.4028234e38
"""Of float32."""
LONGEST = 200
"""Letters of what a module's exception says that are shown."""
MEND = "the module's author has to mend it; docs/howto/own-module.md says what is called with what"


class ModuleError(Exception):
    """Fault of the user's module, and a hint."""

    def __init__(self, message: str, hint: str = MEND) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class UserModule:
    """A module, loaded. One call at a time goes to it, whichever threads call. Raises ``ModuleError``."""

    def __init__(self, path: str) -> None:
        self._name = os.path.basename(path)
        self._lock = allocate_lock()
        name = os.path.splitext(self._name)[0]
        module = type(sys)(name)
        module.__file__ = path
        sys.modules[name] = module
        try:
            with open(path, "rb") as stream:
                code = compile(stream.read(), path, "exec")
            exec(code, module.__dict__)
        except ModuleNotFoundError as error:
            said = f"{self._name} cannot be loaded: {told(error, path)}"
            raise ModuleError(said, "it can import Python's standard library, and nothing else") from error
        except BaseException as error:
            raise ModuleError(f"{self._name} cannot be loaded: {told(error, path)}") from error
        self._path = path
        self._functions = {each: module.__dict__.get(each) for each in ("prepare", "finish")}
        self.prepares, self.finishes = (callable(each) for each in self._functions.values())
        if not (self.prepares or self.finishes):
            raise ModuleError(
                f"{self._name} has neither a function prepare(texts) nor finish(vectors, texts)",
                "define one of the two, or both",
            )

    def prepare(self, texts: list[str]) -> list[str]:
        """Prepare texts: as many, for the tokenizer."""
        if not self.prepares:
            return texts
        made = self._called("prepare", len(texts), "texts", texts)
        if odd := next((each for each in made if not isinstance(each, str)), None):
            raise ModuleError(f"{self._name}: prepare gave {kind(odd)} among its texts, expected str")
        return made

    def finish(self, vectors: list[list[float]], texts: list[str]) -> list[list[float]]:
        """Finish vectors: as many, each of as many numbers, of the vectors of these texts, which are prepared."""
        if not self.finishes:
            return vectors
        made = self._called("finish", len(texts), "vectors", vectors, texts)
        return [self._numbers(row, len(vectors[at])) for at, row in enumerate(made)]

    def _called(self, name: str, count: int, what: str, *arguments: Any) -> list[Any]:
        function = self._functions[name]
        assert function is not None
        try:
            with self._lock:
                made = function(*arguments)
        except BaseException as error:
            raise ModuleError(f"{self._name}: {name} raised {told(error, self._path)}") from error
        if not isinstance(made, (list, tuple)):
            raise ModuleError(f"{self._name}: {name} gave {kind(made)}, expected a list of {what}")
        if len(made) != count:
            raise ModuleError(f"{self._name}: {name} gave {len(made)} {what} for {count} texts")
        return list(made)

    def _numbers(self, row: Any, count: int) -> list[float]:
        """A vector. float() is asked of its numbers alone: it would read a text, too."""
        try:
            # What is no list may have no end.
            row = row if isinstance(row, (list, tuple)) else list(islice(row, count + 1))
            numbers = [float(each) for each in row if not isinstance(each, (str, bytes))]
        except (TypeError, ValueError, OverflowError) as error:
            raise ModuleError(f"{self._name}: finish gave {kind(row)} for a vector: {error}") from error
        if len(numbers) != count:
            raise ModuleError(
                f"{self._name}: finish gave a vector of {len(numbers)} numbers instead of {count}"
            )
        if not all(abs(each) <= LARGEST for each in numbers):
            raise ModuleError(f"{self._name}: finish gave a number that is not finite")
        return numbers


def kind(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def told(error: BaseException, path: str) -> str:
    """An exception in a line, with the last line of the module that it passed."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    try:
        said = " ".join(str(error).split())[:LONGEST]
    except BaseException:  # the class is the module's, and so is what it says
        said = ""
    return type(error).__name__ + (f": {said}" if said else "") + (f" (line {line})" if line else "")


def main(path: str) -> None:
    """For the host: what the function that a JSON object on standard input names makes of its arguments; without one, it is loaded."""
    import json  # which the frozen program does without

    output, sys.stdout = sys.stdout, sys.stderr
    asked = json.load(sys.stdin)
    answer: dict[str, Any]
    try:
        module = UserModule(path)
        function = asked.get("function")
        answer = {"made": getattr(module, function)(*asked["arguments"]) if function else None}
    except ModuleError as error:
        answer = {"error": error.message, "hint": error.hint}
    output.write(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1])
