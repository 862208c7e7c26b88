"""What upstream's CMake would compile: configured once, then read from its compile commands."""

import json
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from edgepack import tools
from edgepack.context import BuildContext
from edgepack.errors import MissingToolError, UsageError
from edgepack.files.store import written_beside
from edgepack.foundry.release import Release
from edgepack.foundry.sources.tree import SourceTree, protoc
from edgepack.foundry.toolchain import Toolchain
from edgepack.foundry.units import BUILD, OVERLAY, TREE, Unit

CMAKE_MINIMUM = (3, 28)
CONFIGURED = ".configured"
"""In a build folder: ``configure`` came to its end in it."""
COMMANDS = "compile_commands.json"


def cmake_variables(settings: Mapping[str, Any], kind: str, features: Sequence[str]) -> dict[str, str]:
    """Variables for upstream's CMake, but for folders and compilers."""
    if kind not in settings["kinds"]:
        raise UsageError(f"no such kind of runtime: {kind}", hint=", ".join(settings["kinds"]))
    variables = dict(settings["cmake"]) | dict(settings["kinds"][kind])
    variables["onnxruntime_DISABLE_ML_OPS"] = "OFF" if "ml" in features else "ON"
    for feature in features:
        variables |= settings.get("features", {}).get(feature, {})
    return variables


def configure(
    tree: SourceTree,
    build: Path,
    *,
    variables: Mapping[str, str],
    toolchain: Toolchain,
    context: BuildContext,
) -> None:
    """Run upstream's CMake into ``build``, and generate the headers that the sources include."""
    build.mkdir(parents=True, exist_ok=True)
    log = build / "configure.log"
    cmake, ninja = _cmake(context), tools.find("ninja")
    folders = {
        "CMAKE_MAKE_PROGRAM": str(ninja),
        "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
        "Python_EXECUTABLE": sys.executable,
        "ONNX_CUSTOM_PROTOC_EXECUTABLE": str(protoc(tree.catalogue.protoc, context=context)),
        "safeint_SOURCE_DIR": str(tree.folder / "safeint/usr/include/safeint"),
        "FETCHCONTENT_SOURCE_DIR_UTF8_RANGE": str(tree.folder / "utf8_range"),
    }
    for name, part in tree.parts.items():
        if part.fetchcontent:
            folders[f"FETCHCONTENT_SOURCE_DIR_{part.fetchcontent}"] = str(tree.folder / name)
    folders |= toolchain.cmake_variables(build / "compilers")
    defines = [f"-D{name}={value}" for name, value in {**variables, **folders}.items()]
    environment = toolchain.environment(build / "zig-cache")
    command: list[str | Path] = [
        cmake,
        "-S",
        tree.onnxruntime / "cmake",
        "-B",
        build,
        "-G",
        "Ninja",
        *defines,
    ]
    context.run(command, env=environment, log_file=log)
    targets = context.run([ninja, "-C", build, "-t", "targets", "all"]).splitlines()
    headers = [line.split(":")[0] for line in targets if line.split(":")[0].endswith(".pb.h")]
    context.run([ninja, "-C", build, *headers], env=environment, log_file=log)
    # zig's C library for CMake's trials, 90 MB; objects are compiled and linked without it.
    shutil.rmtree(build / "zig-cache", ignore_errors=True)
    (build / CONFIGURED).write_text("")


def read_units(
    tree: SourceTree, build: Path, *, release: Release, settings: Mapping[str, Any], family: str
) -> dict[str, Unit]:
    """The units of upstream's compile commands that may belong to the library, by name. ``family`` is the toolchain's."""
    places = {str(tree.folder): TREE, str(build): BUILD}
    units: dict[str, Unit] = {}
    for entry in json.loads((build / COMMANDS).read_text()):
        target = entry["output"].split("CMakeFiles/", 1)[1].split("/", 1)[0].removesuffix(".dir")
        if target in settings["units"]["skip_targets"] or entry["file"].startswith(str(build / "generated_")):
            continue
        unit = _unit(target, entry, places, settings, family)
        units[unit.name] = _with_overlay(unit, release)
    return units


def write_units(units: Mapping[str, Unit], path: Path) -> None:
    """Keep a plan."""
    table = {unit.name: [unit.source, unit.language, list(unit.flags)] for unit in units.values()}
    with written_beside(path) as beside:
        beside.write_text(json.dumps(table, indent=0, sort_keys=True))


def load_units(path: Path) -> dict[str, Unit]:
    """A plan that was kept; ``OSError`` or ``ValueError`` when there is none or it is damaged."""
    table = json.loads(path.read_text())
    try:
        return {
            name: Unit(name=name, source=source, language=language, flags=tuple(flags))
            for name, (source, language, flags) in table.items()
        }
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no plan") from error


def _unit(
    target: str, entry: Mapping[str, str], places: Mapping[str, str], settings: Mapping[str, Any], family: str
) -> Unit:
    source = _placed(entry["file"], places)
    name = f"{target}/{source.split('/', 1)[1]}"
    language = "ASM" if source.endswith((".S", ".s")) else "C" if source.endswith(".c") else "CXX"
    words = shlex.split(entry["command"])[1:]
    dropped = settings["units"].get("drop", ())
    flags = [_placed(word, places) for word in _essential(words) if word not in dropped]
    for rule in settings["units"]["flags"]:
        applies = fnmatchcase(name, rule["match"]) and language in rule.get("languages", (language,))
        if applies and family == rule.get("family", family):
            flags += rule["flags"]
    if language != "ASM" and not any(
        fnmatchcase(name, pattern) for pattern in settings["units"]["exporting"]
    ):
        flags += ["-fvisibility=hidden", *(["-fvisibility-inlines-hidden"] if language == "CXX" else [])]
    return Unit(name=name, source=source, language=language, flags=tuple(flags))


def _with_overlay(unit: Unit, release: Release) -> Unit:
    """ONNX Runtime's own C++ finds the overlay's headers first, and is compiled from its sources."""
    if not unit.name.startswith("onnxruntime_") or unit.language != "CXX":
        return unit
    patched = next((patch.file for patch in release.overlay if patch.matches(unit.name)), None)
    source = f"{OVERLAY}/{patched}" if patched else unit.source
    return replace(unit, source=source, flags=(f"-I{OVERLAY}", *unit.flags))


def _essential(words: Sequence[str]) -> Iterator[str]:
    """Without output, source and warnings (upstream's are for its developers, and gcc's are not clang's)."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in ("-o", "-c"):
            skip = True
        elif not word.startswith("-W") or word.startswith(("-Wl,", "-Wa,", "-Wp,")):
            yield word


def _placed(word: str, places: Mapping[str, str]) -> str:
    for folder, placeholder in sorted(places.items(), key=lambda item: -len(item[0])):
        word = word.replace(folder, placeholder)
    return word


def _cmake(context: BuildContext) -> Path:
    program = tools.find("cmake")
    words = context.run([program, "--version"]).split()
    version = tuple(int(number) for number in words[2].split(".")[:2] if number.isdigit())
    if version < CMAKE_MINIMUM:
        raise MissingToolError(
            f"cmake 3.28 or newer is needed, {program} is {words[2]}", hint=tools.install_hint("cmake")
        )
    return program
