"""``python -m tests.support.killed DELTA BUNDLE FOLDER``: apply a delta, killed at each thing that it does to the file system.

The first run is killed at its first event, the next at its second, and so on, until one ends by itself. After each, what lies in
the place of the bundle is looked at, and the delta is applied once more. Prints what was found as JSON.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

from edgepack.bundles.manifest import digest, open_bundle
from edgepack_updates import applying
from edgepack_updates.applying import apply_delta

EVENTS = ("open", "os.", "shutil.", "ctypes.call_function", "ctypes.dlsym", "fcntl.flock")


def killed_at(last: int, delta: Path, bundle: Path) -> bool:
    """Apply in a process that is killed at an event; whether it came so far."""
    child = os.fork()
    if child == 0:
        seen = 0

        def look(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal seen
            if event.startswith(EVENTS):
                seen += 1
                if seen == last:
                    os.kill(os.getpid(), signal.SIGKILL)

        before = open_bundle(bundle)
        sys.addaudithook(look)
        apply_delta(delta, before)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def main(delta: Path, bundle: Path, folder: Path) -> None:
    applying.os.sync = lambda: None  # type: ignore[attr-defined] # of a busy machine's disks it takes seconds
    found: dict[str, list[object]] = {"first": [], "then": [], "left": []}
    continued = 0
    at = 1
    while True:
        place = folder / str(at) / "small"
        shutil.copytree(bundle, place, symlinks=True)
        if not killed_at(at, delta, place):
            break
        found["first"].append(digest(open_bundle(place)))
        work = next(place.parent.glob("*.update"), None)
        continued += work is not None and (work / "model/model.onnx").is_file()
        found["then"].append(digest(apply_delta(delta, open_bundle(place)).bundle))
        found["left"].append(sorted(path.name for path in place.parent.iterdir()))
        shutil.rmtree(place.parent)
        at += 1
    print(json.dumps({**found, "continued": continued}))  # noqa: T201 - it is a program


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
