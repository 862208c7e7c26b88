"""Checks of a plugin as it is found: its import, its hooks, its specs and its targets."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock

import edgepack
from edgepack.files.store import default_root
from edgepack.testing.check import Broken, NotSeen, check
from edgepack.testing.kit import PluginSubject

HEAVY = frozenset(
    [
        "onnx",
        "onnxruntime",
        "numpy",
        "scipy",
        "torch",
        "tensorflow",
        "transformers",
        "tokenizers",
        "safetensors",
        "openvino",
        "httpx",
        "requests",
        "urllib3",
        "PyInstaller",
        "zstandard",
        "brotli",
        "pandas",
    ]
)
SLOW = 1.0
"""Seconds that importing a plugin may take, whatever else the machine does."""
PROBE = """
import importlib.metadata, json, locale, os, signal, sys, threading, time, warnings
import edgepack.plugins.host, edgepack.api, pluggy
before, events, start = set(sys.modules), [], time.perf_counter()
def watch(event, values):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto", "subprocess.Popen", "os.system", "os.posix_spawn", "os.exec"):
        events.append(f"{event} {values[0] if event == 'subprocess.Popen' else values[-1]}")
sys.addaudithook(watch)
stdout, sys.stdout = sys.stdout, sys.stderr
watched = {
    "the working folder": os.getcwd,
    "PATH": lambda: os.getenv("PATH"),
    "what SIGINT does": lambda: signal.getsignal(signal.SIGINT),
    "what SIGTERM does": lambda: signal.getsignal(signal.SIGTERM),
    "the locale": lambda: locale.setlocale(locale.LC_ALL),
    "the recursion limit": sys.getrecursionlimit,
    "which warnings are errors": lambda: sum(each[0] == "error" for each in warnings.filters),
    "sys.stderr": lambda: (sys.stderr, sys.stderr.closed),
    "which threads a program waits for": lambda: [each for each in threading.enumerate() if not each.daemon],
}
was = {what: look() for what, look in watched.items()}
class Silent:
    said = ""
    def write(self, text):
        Silent.said += text
        return len(text)
    def flush(self): pass
sys.stdout = Silent()
error = ""
try:
    (point,) = {p.value: p for p in importlib.metadata.entry_points(group="edgepack", name=sys.argv[1])}.values()
    module = point.load()
    for hook in ("edgepack_specs", "edgepack_targets"):
        if hasattr(module, hook):
            list(getattr(module, hook)())
except BaseException as wrong:
    error = f"{type(wrong).__name__}: {wrong}"
changed = [what for what, look in watched.items() if look() != was[what]]
took = time.perf_counter() - start
new = sorted({name.partition(".")[0] for name in set(sys.modules) - before})
stdout.write(json.dumps({"new": new, "said": Silent.said, "events": events, "seconds": took, "changed": changed, "error": error}))
stdout.flush()
os._exit(0)
"""
FUNCTIONS = "a function of it that is heavy is named by edgepack.api.lazy, and imported when it is called"


@cache
def _probe(subject: PluginSubject) -> dict[str, Any]:
    """Effects of importing the plugin and calling its hooks in a fresh process. ``NotSeen`` when that fails."""
    command = [sys.executable, "-c", PROBE, subject.name]
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", env=subject.kit.environment(), check=False
    )
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise NotSeen(
            f"a process that imports it ends with {done.returncode}: {done.stderr[-300:]}"
        ) from error
    if found["error"]:
        raise NotSeen(f"it cannot be imported: {found['error']}")
    return found


@check(
    "loads",
    "The plugin loads: its hooks have edgepack's names and arguments, its specs and targets names of their own.",
    section="docs/plugins.md#hooks",
)
def loads(subject: PluginSubject) -> None:
    from edgepack.cli import cli
    from edgepack.plugins.commands import refused_commands
    from edgepack.plugins.spec import INTERFACES

    info = subject.info
    refused = refused_commands(cli.commands).get(info.package)
    if error := info.error or refused:
        raise Broken(error, do="mend it; `edgepack plugins` says the same")
    if info.disabled:
        raise NotSeen(f"it is disabled by {info.disabled}")
    if not info.specs and not info.targets:
        raise Broken(
            "it registers nothing", do=f"return a Spec from edgepack_specs; axes: {', '.join(INTERFACES)}"
        )


@check(
    "hooks-are-marked",
    "Every function that is named as a hook is marked with hookimpl: without, it is never called.",
    section="docs/plugins.md#hooks",
)
def hooks_are_marked(subject: PluginSubject) -> None:
    from importlib import import_module
    from importlib.metadata import entry_points

    _ = subject.loaded
    module = import_module(next(iter(entry_points(group="edgepack", name=subject.name))).module)
    for name, found in vars(module).items():
        if name.startswith("edgepack_") and callable(found) and not hasattr(found, "edgepack_impl"):
            raise Broken(f"{module.__name__}.{name} has no mark", do="put @hookimpl (edgepack.api) above it")


@check(
    "imports-nothing-heavy",
    "Importing the plugin and asking what it brings is light: every `edgepack targets` does it.",
    section="docs/plugins.md#hooks",
)
def imports_nothing_heavy(subject: PluginSubject) -> None:
    found = _probe(subject)
    if heavy := sorted(HEAVY & set(found["new"])):
        raise Broken(f"it imports {', '.join(heavy)}", do=FUNCTIONS)
    if found["seconds"] > SLOW:
        raise Broken(f"it took {found['seconds']:.1f} s", do=FUNCTIONS)


@check(
    "import-is-silent",
    "Importing the plugin writes nothing to standard output, which belongs to the command's result.",
    section="docs/plugins.md#what-the-host-does-about-a-plugin-that-is-wrong",
)
def import_is_silent(subject: PluginSubject) -> None:
    if said := _probe(subject)["said"]:
        raise Broken(f"it printed {said[:80]!r}", do="take the print out, or use logging")


@check(
    "import-reaches-nothing",
    "Importing the plugin opens no connection and starts no program.",
    section="docs/plugins.md#hooks",
)
def import_reaches_nothing(subject: PluginSubject) -> None:
    if events := _probe(subject)["events"]:
        raise Broken(f"it did {events[0]}", do="do it in `fetch`, `missing` or a step of the builder")


@check(
    "import-changes-nothing",
    "Importing the plugin changes nothing of the process: folder, environment, signals, locale, warnings, threads.",
    section="docs/plugins.md#what-the-host-does-about-a-plugin-that-is-wrong",
)
def import_changes_nothing(subject: PluginSubject) -> None:
    if changed := _probe(subject)["changed"]:
        raise Broken(f"it changed {changed[0]}", do="do it in a step, for as long as it is needed")


@check(
    "types",
    "The plugin's code passes mypy --strict: the signatures of its methods are those that the host calls.",
    section="docs/plugins.md#what-may-be-imported",
)
def types(subject: PluginSubject) -> None:
    import importlib.util

    _ = subject.loaded
    if importlib.util.find_spec("mypy") is None:
        raise NotSeen("mypy is not installed")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file="]
    # What others' packages lack in types is not the plugin's; reading edgepack takes half a minute, once.
    command += [
        "--ignore-missing-imports",
        "--no-warn-unused-ignores",  # which the line before makes of what others need
        "--follow-imports=silent",
    ]
    environment = {**subject.kit.environment(), "MYPYPATH": _edgepack_for_mypy()}

    def run(cache: str) -> subprocess.CompletedProcess[str]:
        words = [*command, f"--cache-dir={cache}", str(subject.folder)]
        return subprocess.run(words, capture_output=True, encoding="utf-8", env=environment, check=False)

    # Two of mypy in one cache, or a cache that another edgepack has left, can bring it down.
    cache = default_root() / "mypy"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / "lock"):
        done = run(str(cache))
    if done.returncode > 1:
        done = run(os.devnull)
    if done.returncode == 1:
        lines = done.stdout.splitlines()
        raise Broken(
            "\n       ".join(lines[:5]), do="mend the types; edgepack.api has those that hooks and steps take"
        )
    if done.returncode:
        raise NotSeen(f"mypy failed: {done.stderr[-300:]}")


def _edgepack_for_mypy() -> str:
    """The folder of a source tree's edgepack, which mypy does not find; an installed one it finds by itself."""
    folder = Path(edgepack.__file__).parents[1]
    return "" if folder.name in ("site-packages", "dist-packages") else str(folder)


@check(
    "targets-can-be-built",
    "Every target of the plugin parses and names a builder; its options are not those of `edgepack bundle`.",
    section="docs/targets.md",
)
def targets_can_be_built(subject: PluginSubject) -> None:
    from edgepack.targets import read_target

    host = subject.kit.host
    own = subject.loaded.targets
    builders = {
        each.builder for each in (read_target(host.target_files[name].file, origin="") for name in own)
    }
    for name in own:
        found = host.builder_of(host.target(name))
        found.missing(host.target(name))
    for builder in builders | {spec.name for spec in subject.info.specs if spec.axis == "builder"}:
        if builder in host.builders:
            host.builders[builder].options()


@check(
    "requires-edgepack",
    "The distribution says that it needs edgepack, so that pip installs one that it works with.",
    section="docs/plugins.md",
)
def requires_edgepack(subject: PluginSubject) -> None:
    from packaging.requirements import Requirement

    if subject.info.distribution == "edgepack":
        return
    for requirement in map(Requirement, subject.requires or []):
        if requirement.name.lower() == "edgepack":
            if not requirement.specifier.contains(edgepack.__version__, prereleases=True):
                raise Broken(
                    f"it requires {requirement}, this is edgepack {edgepack.__version__}",
                    do="widen the range, or release",
                )
            return
    raise Broken(
        f"{subject.info.distribution} requires {subject.requires or 'nothing'}",
        do='dependencies = ["edgepack"] in its pyproject.toml',
    )


@check(
    "speaks-the-newest-interface",
    "Every spec is written for the newest interface of its axis; the one before it ends with a release of edgepack.",
    section="docs/plugins.md#interfaces",
)
def speaks_the_newest_interface(subject: PluginSubject) -> None:
    from edgepack.plugins.spec import INTERFACES

    for spec in subject.loaded.specs:
        known = INTERFACES[spec.axis]
        if spec.api != known.newest:
            raise Broken(
                f"{spec.axis} {spec.name} is written for interface {spec.api}, which edgepack {known.ends} no longer speaks",
                do=f"go over to {known.newest}, and say api={known.newest} in its Spec",
            )


CHECKS = (
    loads,
    hooks_are_marked,
    imports_nothing_heavy,
    import_is_silent,
    import_reaches_nothing,
    import_changes_nothing,
    types,
    targets_can_be_built,
    requires_edgepack,
    speaks_the_newest_interface,
)
