"""Freezing the runner: the C++ program in a library, and a thin Python that gives it what only Python can."""

import hashlib
import importlib.metadata
import json
import logging
import platform as host
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import edgepack
from edgepack.context import BuildContext
from edgepack.errors import EdgepackError, FloorError, ProofError, ToolError, UnsupportedModelError
from edgepack.files.elf import floor_of, version_key
from edgepack.files.store import sha256_of
from edgepack.foundry.link.standalone import build_standalone
from edgepack.foundry.units import ProgramSources
from edgepack.models.read.tokenizer import minimal_json
from edgepack.records.bundle import RunnerArtifact
from edgepack.records.model import PreparedModel
from edgepack.records.target import Platform
from edgepack.runner.freeze.cxx_runtime import installed_compiler
from edgepack.runner.freeze.excludes import LEANEST_FIRST, for_module
from edgepack.runner.freeze.licenses import write_licenses
from edgepack.runner.freeze.pyinstaller import INTERNAL, PROGRAM, freeze, tokenizers_module
from edgepack.runner.freeze.python_library import python_library
from edgepack.runner.freeze.smoke_test import smoke_test
from edgepack.runner.native.build import P256, features_of, license_of_p256
from edgepack.runner.native.sources import ort_encoder, program_sources
from edgepack.runner.tokenizer.compile import compiled_tokenizer
from edgepack.tools import find

log = logging.getLogger(__name__)

KIND = "pyinstaller"
SCHEMA = "2"
LIBRARY = f"{INTERNAL}/libembed.so"
EXPORTS = ("embed_answer", "embed_main_with")
"""What program/host.h declares."""
ROOT = Path(edgepack.__file__).parent
SOURCES = ROOT / "runner/frozen"
USER_MODULE = ROOT / "verifier/confined/user_module.py"
TRUNCATION = ROOT / "runner/tokenizer/truncation.py"
"""What is frozen in, and edgepack has, too: standard library only, and nothing of edgepack."""
OUTPUTS = ("scores", "sparse", "tokens")


def freeze_runner(
    *,
    model: PreparedModel,
    platform: Platform,
    signatures: bool = False,
    public_key: str = "",
    module: Path | None = None,
    context: BuildContext,
) -> RunnerArtifact:
    """The program ``embed`` for this machine's kind: the native one, which loads ONNX Runtime, in a library, and Python around it.

    Python tokenizes where the model's tokenizer has a part that does not compile, with the package tokenizers, and runs the user's
    own ``module``. Frozen once for a Python and these sources, then taken from the store.

    With ``signatures`` it can check that its bundle is signed; with ``public_key``, the text of a PEM, it refuses every bundle
    that is not signed with that key.

    Raises ``MissingToolError`` for a Python without a shared library or a machine without binutils, ``ToolError`` or ``ProofError`` when
    the program cannot be frozen or, frozen, does not work, ``FloorError`` when it needs a newer glibc than the devices of ``platform`` have.
    """
    table = _table(model, context)
    features = features_of(model.source) | ({"signatures"} if signatures else set())
    library = link_library(platform, context=context)
    inputs = {**decides(), "library": sha256_of(library), "tokenizer": "compiled" if table else "tokenizers"}
    if module is not None:
        inputs["module's name"] = module.name

    def make(folder: Path) -> None:
        freeze_into(folder, library=library, compiled=table is not None, module=module, context=context)

    made = context.store.cached("runner", inputs, make, files={"module": module} if module else {})
    own = link_library(platform, features, key=public_key, context=context)
    folder = context.work_dir / "frozen-runner"
    shutil.copytree(made / "program", folder, symlinks=True)
    shutil.copyfile(own, folder / LIBRARY)
    versions = json.loads((made / "versions.json").read_text())
    context.note(
        ", ".join(
            f"{name.replace('_floor', '')} {version}" for name, version in versions.items() if name != "trim"
        )
    )
    require_floor(versions["glibc_floor"], platform)
    licenses = [text for part in (made, own.parent) for text in sorted((part / "licenses").iterdir())]
    if signatures or public_key:
        licenses.append(license_of_p256(context.work_dir / P256))
    return RunnerArtifact(
        directory=folder,
        program=PROGRAM,
        kind=KIND,
        versions=versions,
        licenses=tuple(licenses),
        tokenizer=table,
        module=f"module/{module.name}" if module else None,
        serves=True,
        outputs=OUTPUTS,
    )


def _table(model: PreparedModel, context: BuildContext) -> Path | None:
    """The compiled tokenizer; ``None`` where it has a part that cannot be compiled."""
    try:
        return compiled_tokenizer(
            minimal_json(model.source), pairs=model.source.head is not None, context=context
        )
    except UnsupportedModelError as error:
        log.debug("tokenizers is frozen: %s", error.message)
        return None


def link_library(
    platform: Platform, features: Iterable[str] = (), *, key: str = "", context: BuildContext
) -> Path:
    """libembed.so, the program as a function; licences lie beside it. ``key`` is what bundles have to be signed with, in PEM."""
    sources = program_sources(ort_encoder("loaded"), {*features, "host", "serve"}, key=key)
    del sources["program/main.cc"]
    program = ProgramSources(files=sources, output=Path(LIBRARY).name, exports=EXPORTS)
    return build_standalone(program, platform=platform, context=context) / program.output


def require_floor(floor: str, platform: Platform) -> None:
    """Raise ``FloorError`` when what was frozen does not run on the devices."""
    if platform.glibc and floor and version_key(floor) > version_key(platform.glibc):
        raise FloorError(
            f"the frozen program needs glibc {floor}, as the Python and the libgcc that build it do; "
            f"the target's devices have {platform.glibc}",
            hint=f"build on a system with glibc {platform.glibc} or older, in a container for one (Debian 11 has 2.31, "
            f'AlmaLinux 8 has 2.28), or raise the target\'s: --set platform.glibc="{floor}"',
        )


def decides() -> dict[str, str]:
    """All that decides what a freeze gives, but for the library and a user's module."""
    digest = hashlib.sha256()
    own = [
        *sorted(SOURCES.rglob("*.py")),
        *sorted(Path(__file__).parent.glob("*.py")),
        USER_MODULE,
        TRUNCATION,
    ]
    for source in own:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return {
        "schema": SCHEMA,
        "sources": digest.hexdigest(),
        "python": f"{sys.version} {host.machine()} {sys.base_prefix}",
        "compiler": installed_compiler() or "",
        "libc": " ".join(host.libc_ver()),
        **{name: importlib.metadata.version(name) for name in ("pyinstaller", "tokenizers")},
    }


def freeze_into(
    folder: Path, *, library: Path, compiled: bool, module: Path | None, context: BuildContext
) -> None:
    """Fill a store entry: ``program/``, ``licenses/`` and ``versions.json``."""
    for tool in ("ldd", "objdump", "patchelf", "strip"):
        find(tool)
    work = context.work_dir / "runner"
    work.mkdir(parents=True, exist_ok=True)
    python = python_library(work / "python", context=context)
    program = work / "program"
    trim = freeze_leanest(
        program, python=python, library=library, compiled=compiled, module=module, context=context
    )
    versions = {
        "python": host.python_version(),
        **({} if compiled else {"tokenizers": importlib.metadata.version("tokenizers")}),
        "pyinstaller": importlib.metadata.version("pyinstaller"),
        "glibc_floor": floor_of(program) or "",
        "trim": trim,
    }
    # Another one takes the place of that which it was tried with.
    (program / LIBRARY).unlink()
    write_licenses(program, folder / "licenses", context=context)
    (folder / "versions.json").write_text(json.dumps(versions, indent=1))
    # The store may lie on another file system than temporary folders do.
    shutil.copytree(program, folder / "program", symlinks=True)


def freeze_leanest(
    program: Path,
    *,
    python: Path,
    library: Path,
    compiled: bool,
    module: Path | None = None,
    context: BuildContext,
) -> str:
    """Freeze with as little as works, and say how much was left out, by name."""
    failure: EdgepackError | None = None
    for excludes in LEANEST_FIRST:
        fitting = for_module(excludes, module, context=context) if module else excludes
        sources = sources_of(compiled=compiled, module=module)
        try:
            freeze(program, sources=sources, excludes=fitting, python_library=python, context=context)
            shutil.copyfile(library, program / LIBRARY)
            if module is not None:
                (program / "module").mkdir()
                shutil.copyfile(module, program / "module" / module.name)
            smoke_test(program, work=program.parent, compiled=compiled, module=module, context=context)
        except (ToolError, ProofError) as error:
            context.note(f"trim {excludes.name!r} does not work here")
            log.debug("trim %s: %s", excludes.name, error.message)
            failure = error
        else:
            return excludes.name
    assert failure is not None
    raise failure


def sources_of(*, compiled: bool, module: Path | None = None) -> dict[str, bytes]:
    """Sources that are frozen, by their place: of edgepack these files alone, and for what a user's module imports,
    that module, never started.
    """
    own = [file for file in sorted(SOURCES.glob("*.py")) if not (compiled and file.name == "tokenizer.py")]
    own += [USER_MODULE] if compiled else [USER_MODULE, TRUNCATION]
    found = {f"edgepack/{file.relative_to(ROOT).as_posix()}": file.read_bytes() for file in own}
    packages = {parent.as_posix() for place in found for parent in Path(place).parents} - {"."}
    found = {**{f"{package}/__init__.py": b"" for package in packages}, **found}
    start = "from edgepack.runner.frozen.__main__ import start\n\nstart()\n"
    if module is not None:
        found["edgepack_imports.py"] = module.read_bytes()
        start += "import edgepack_imports\n"
    return {**found, **({} if compiled else tokenizers_module()), f"{PROGRAM}.py": start.encode()}
