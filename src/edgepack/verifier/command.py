"""What a bundle's manifest says is run, and what of the disk that needs."""

import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

from edgepack import tools
from edgepack.bundles.manifest import JSON_LINES
from edgepack.errors import BundleError, CannotRunHere, MissingToolError
from edgepack.files.elf import architecture, is_static
from edgepack.records.bundle import Bundle
from edgepack.verifier.confined.sandbox import View, view_of

HOST_PROGRAMS = frozenset({"node"})
"""What a bundle's command may begin with though it is not in the bundle, without the target's saying so: an engine that a device has
by being what it is, as a browser has one."""


def command_of(bundle: Bundle, *, trusted: bool = False) -> list[str | Path]:
    """The words of the bundle's command, paths in the bundle made absolute.

    The first word is a file of the bundle, or the name of a program that devices have. Raises ``BundleError`` for anything else,
    ``CannotRunHere`` when no host can run it, or a program of the host's is not installed.
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
    return [host_program(bundle, words[0], trusted=trusted), *placed[1:]]


def runs_itself(bundle: Bundle) -> bool:
    """Whether the command is the bundle's program, which can be asked for more than vectors, and not something that runs it."""
    runner = bundle.manifest["runner"]
    return bool((runner.get("command") or [runner["program"]])[0] == runner["program"])


def host_program(bundle: Bundle, name: str, *, trusted: bool = False) -> Path:
    """Path on this host of a program that a bundle's command begins with. Raises as ``command_of``."""
    if name not in HOST_PROGRAMS and not (trusted and "/" not in name and name in _declared(bundle)):
        raise BundleError(
            f"{plugin_of(bundle)}the command of {bundle.name} begins with {name!r}, which is neither a file of the bundle "
            f"nor a program that its devices have",
            hint=f"a command begins with the bundle's program, with {', '.join(sorted(HOST_PROGRAMS))}, or with a name in the target's platform.has",
        )
    try:
        return tools.find(name)
    except MissingToolError as error:
        raise CannotRunHere(f"{error.message}; {error.hint}" if error.hint else error.message) from error


def view_for(bundle: Bundle, words: Sequence[str | Path], *, trusted: bool) -> View:
    """View of the disk for the program: its bundle, the paths of the command (an emulator's, an interpreter's) themselves, and

    - for a compiled program the C library that its target promises, nothing for a static one;
    - for a script, and for what a program of the host's runs, the system's programs and libraries;
    - for an execution provider these, the devices and what the driver reads;
    - where the bundle was made here, what its target says that devices have (``platform.has``), and the packages beside an interpreter.
    """
    inside = bundle.directory.absolute()
    outside = [word for word in words if isinstance(word, Path) and not word.is_relative_to(inside)]
    own = [word for word in words if isinstance(word, Path) and word.is_relative_to(inside)]
    declared = [Path(each) for each in _declared(bundle) if "/" in each] if trusted else []
    declared += _environment_of(words[0]) if trusted and isinstance(words[0], Path) else []
    compiled = next((word for word in own if _is_of_this_host(word)), None)
    gpu = has_provider(bundle)
    system = gpu or not isinstance(words[0], Path) or not _is_compiled(words[0])
    system = system or any(_is_of_this_host(word) and not is_static(word) for word in outside)
    shown = [inside, *outside, *(path for path in declared if path.exists())]
    return view_of(shown, system=system, libc_of=compiled, gpu=gpu)


def _environment_of(program: Path) -> list[Path]:
    """The virtual environment that a Python belongs to, and the Python that it was made of: devices have their packages elsewhere."""
    environment = program.parent.parent
    made_of = Path(os.path.realpath(program)).parent.parent
    return [environment, made_of] if (environment / "pyvenv.cfg").is_file() else []


def _is_compiled(file: Path) -> bool:
    return file.is_file() and architecture(file) is not None


def _is_of_this_host(file: Path) -> bool:
    return file.is_file() and architecture(file) == platform.machine()


def _declared(bundle: Bundle) -> Iterable[str]:
    said = bundle.manifest.get("target", {}).get("platform", {}).get("has", ())
    return [str(each) for each in said] if isinstance(said, list) else []


def has_provider(bundle: Bundle) -> bool:
    """Whether the bundle needs a device with an execution provider."""
    return bool((bundle.manifest["runtime"] or {}).get("provider"))


def plugin_of(bundle: Bundle) -> str:
    """``plugin NAME: ``, for the beginning of a sentence; empty where the manifest names none."""
    name = (bundle.manifest.get("made_by") or {}).get("plugin")
    return f"plugin {name}: " if name else ""
