"""A bundle's program on a device, in the place of one that this host runs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from edgepack.bundles.manifest import file_entry
from edgepack.context import BuildContext
from edgepack.device.placed import Placed, placed
from edgepack.errors import FloorError
from edgepack.records.bundle import Bundle
from edgepack.verifier.confined.limits import RunLimits
from edgepack.verifier.confined.program import Ended
from edgepack.verifier.run import BundleRunner

GRACE = 60
"""Seconds that a line has beside its program's: where the device ends that by itself, it says so."""
KILL = 9
KILLED = 128 + KILL
"""How a shell says that a program was ended by SIGKILL: for its time, or its memory."""
CANNOT_EXECUTE, NOT_FOUND = 126, 127
REFUSED = re.compile(
    r"exec format error|cannot execute|not a valid win32|version [`'].{1,40}' not found|error while loading shared"
    r"|syntax error|unexpected|illegal instruction|no such file|not found",
    re.IGNORECASE,
)
"""What kernels, loaders and shells say of programs that are not for them."""


def runner_on(
    there: Placed, *, environment: Mapping[str, str] | None = None, context: BuildContext
) -> BundleRunner:
    """Runner of the bundle's program where it was placed; the host compares as ever. The program sees ``environment``, too.

    A copy in which files were exchanged is placed beside it while it runs.
    """

    def elsewhere(bundle: Bundle, command: Sequence[str | Path], input: str, limits: RunLimits) -> Ended:
        if bundle.directory == there.directory:
            return _run(there, bundle, command, input, limits, environment or {})
        with placed(_listed(bundle), there.session, context=context) as copy:
            return _run(copy, bundle, command, input, limits, environment or {})

    return BundleRunner(context=context, elsewhere=elsewhere)


def _listed(copy: Bundle) -> Bundle:
    """The copy with its files as they are in the manifest that is compared with what arrives; the program reads the other one."""
    files = [
        file_entry(copy.directory / file["path"], root=copy.directory, part=file["part"])
        for file in copy.manifest["files"]
    ]
    return replace(copy, manifest={**copy.manifest, "files": files})


def _run(
    there: Placed,
    bundle: Bundle,
    command: Sequence[str | Path],
    input: str,
    limits: RunLimits,
    environment: Mapping[str, str],
) -> Ended:
    session = there.session
    words = [_there(bundle, word) for word in command]
    said = session.ask(
        session.shell.program(there.folder, words, limits.seconds, environment),
        f"{bundle.name} ran",
        input=input.encode(),
        seconds=limits.seconds + GRACE,
        most=limits.output,
    )
    if said.code in (CANNOT_EXECUTE, NOT_FOUND) and REFUSED.search(said.messages):
        raise FloorError(
            f"{session.at.id} cannot run the program of {bundle.name}: {said.last_words}",
            hint="another processor, a C library that is older or another, or a folder whose programs may not run",
        )
    code = -KILL if said.code == KILLED else said.code
    return Ended(output=said.text, messages=said.messages, code=code)


def _there(bundle: Bundle, word: str | Path) -> str:
    """A word of a command, as it is on the device: files of the bundle by their place in it, this host's programs by name."""
    if not isinstance(word, Path):
        return word
    root = bundle.directory.absolute()
    return word.relative_to(root).as_posix() if word.is_relative_to(root) else word.name
