"""``python -m tests.support.killed WHAT …``: something that puts a bundle in its place, killed at each thing that it does to the file system.

The first run is killed at its first event, the next at its second, and so on, until one ends by itself. After each, what lies in
the place of the bundle is looked at, and it is done once more. Prints what was found as JSON.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from edgepack.bundles import place
from edgepack.bundles.manifest import digest, open_bundle
from edgepack.bundles.place import placed_folder
from edgepack_updates import applying
from edgepack_updates.applying import apply_delta

EVENTS = ("open", "os.", "shutil.", "tempfile.", "ctypes.call_function", "ctypes.dlsym", "fcntl.flock")


def killed_at(last: int, act: Callable[[], object]) -> bool:
    """Do something in a process that is killed at an event; whether it came so far."""
    child = os.fork()
    if child == 0:
        seen = 0

        def look(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal seen
            if event.startswith(EVENTS):
                seen += 1
                if seen == last:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(look)
        act()
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def apply(delta: Path, bundle: Path, folder: Path) -> None:
    """A delta."""
    applying.os.sync = lambda: None  # type: ignore[attr-defined] # of a busy machine's disks it takes seconds
    found: dict[str, list[object]] = {"first": [], "then": [], "left": []}
    continued = 0
    at = 1
    while True:
        there = folder / str(at) / "small"
        shutil.copytree(bundle, there, symlinks=True)
        if not killed_at(at, partial(apply_delta, delta, open_bundle(there))):
            break
        found["first"].append(digest(open_bundle(there)))
        work = next(there.parent.glob("*.update"), None)
        continued += work is not None and (work / "model/model.onnx").is_file()
        found["then"].append(digest(apply_delta(delta, open_bundle(there)).bundle))
        found["left"].append(sorted(path.name for path in there.parent.iterdir()))
        shutil.rmtree(there.parent)
        at += 1
    print(json.dumps({**found, "continued": continued}))  # noqa: T201 - it is a program


def replace(how: str, folder: Path) -> None:
    """A bundle, by ``placed_folder``, where folders can be exchanged, or where they cannot."""
    if how == "in steps":
        place.exchange = lambda one, other: False  # type: ignore[attr-defined]
    found: dict[str, list[object]] = {"first": [], "then": [], "left": []}
    at = 1
    while True:
        there = folder / str(at) / "a"
        _put(there, "old")
        if not killed_at(at, partial(_put, there, "new")):
            break
        found["first"].append(_said(there))
        try:
            with placed_folder(there, force=True):
                raise InterruptedError  # It only cleans up.
        except InterruptedError:
            found["then"].append(_said(there))
        found["left"].append(sorted(path.name for path in there.parent.iterdir()))
        at += 1
    print(json.dumps(found))  # noqa: T201 - it is a program


def _put(there: Path, content: str) -> None:
    with placed_folder(there, force=True) as work:
        text = json.dumps({"schema": 1, "target": content, "files": [{"path": "model/model.bin"}]})
        (work / "manifest.json").write_text(text)
        (work / "model").mkdir()
        (work / "model/model.bin").write_text(text)


def _said(there: Path) -> str | None:
    """Old, new, mixed, or nothing there."""
    if not there.exists():
        return None
    files = sorted(path for path in there.rglob("*") if path.is_file())
    names = [path.relative_to(there).as_posix() for path in files]
    contents = {path.read_text() for path in files}
    whole = names == ["manifest.json", "model/model.bin"] and len(contents) == 1
    return str(json.loads(contents.pop())["target"]) if whole else f"mixed: {names}"


if __name__ == "__main__":
    what, *given = sys.argv[1:]
    if what == "apply":
        apply(*map(Path, given))
    else:
        replace(what, Path(given[0]))
