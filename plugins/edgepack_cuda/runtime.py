"""The libraries of a bundle: ONNX Runtime, its CUDA provider pruned, and what the layout adds to them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack.api import BuildContext, BundleError
from edgepack.api.kit import (
    RuntimeFolder,
    SourceFile,
    Wheel,
    closure_of,
    system_libraries,
    wheel_file,
    wheel_files,
)
from edgepack.files.elf import opened_libraries
from edgepack.files.shared_libraries import Closure
from edgepack.runner.runtime_folder import SystemLibrary
from edgepack_cuda.image import read_image
from edgepack_cuda.lists import lists_for, select_units
from edgepack_cuda.nvidia import (
    CUBLAS,
    CUDA_PROVIDER,
    CUDART,
    DRIVER,
    GPU_FILES,
    HOST,
    ONNXRUNTIME_GPU,
    SHARED,
    cuda_terms,
    dotted,
)
from edgepack_cuda.prune import device_code, prune

SCHEMA = "7"
PROVIDER = CUDA_PROVIDER
LOAD_ORDER = ("libcudart.so.13", "libcublasLt.so.13", "libcublas.so.13")
VERSIONED = (*LOAD_ORDER, "libcurand.so.10")
"""CUDA's libraries, all of whose symbols have versions."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Parts of the libraries that are kept."""

    architectures: tuple[str, ...]
    operators: tuple[str, ...] | None
    """Those whose translation units stay; ``None``: all units."""
    layout: str = "thin"


@dataclass(frozen=True, kw_only=True)
class Libraries:
    """Files for a bundle's ``lib``, and what was done to them."""

    folder: RuntimeFolder
    device: tuple[str, ...]
    """What is loaded before the provider, in this order: of the bundle, or else of the device."""
    capabilities: tuple[str, ...]
    """e.g. ``("8.6",)``."""
    listed: bool
    """Whether only listed translation units are left."""
    changes: tuple[str, ...]
    notes: tuple[str, ...]


def libraries_for(choice: Choice, *, context: BuildContext) -> Libraries:
    """Made once for a choice, the pinned wheels and this machine's C++ runtime.

    Raises ``TargetError`` for an architecture that the wheel has no code for, and what fetching wheels raises.
    """
    host = system_libraries(HOST, context=context)

    def make(folder: Path) -> None:
        _make(folder, choice, host, context)

    lists = lists_for(ONNXRUNTIME_GPU.version)
    inputs = {
        "schema": SCHEMA,
        "wheels": " ".join(wheel.sha256 for wheel in _wheels(choice.layout)),
        "architectures": " ".join(choice.architectures),
        "operators": json.dumps(choice.operators),
        "way": "punch",  # the one that there is: kept so that what is in stores stays valid
        "layout": choice.layout,
        "host": " ".join(str(library.file) for library in host),
        "lists": repr(lists and (lists.always, sorted(lists.operators.items()))),
    }
    made = context.store.cached("cuda-runtime", inputs, make)
    facts = json.loads((made / "facts.json").read_text(encoding="utf-8"))
    return Libraries(
        folder=RuntimeFolder(made),
        device=tuple(facts["device"]),
        capabilities=tuple(facts["capabilities"]),
        listed=facts["listed"],
        changes=tuple(facts["changes"]),
        notes=tuple(facts["notes"]),
    )


def _wheels(layout: str) -> tuple[Wheel, ...]:
    return (ONNXRUNTIME_GPU,) if layout == "thin" else (ONNXRUNTIME_GPU, CUBLAS, CUDART)


def source_files(layout: str) -> tuple[SourceFile, ...]:
    """Files that the libraries of a layout come from."""
    cuda = (*CUBLAS.source_files("libcublas", "libcublasLt"), *CUDART.source_files("libcudart"))
    return (*ONNXRUNTIME_GPU.source_files("onnxruntime"), *(() if layout == "thin" else cuda))


def fetch_wheels(layout: str, *, context: BuildContext) -> None:
    """Put the wheels of a layout into the store."""
    for wheel in _wheels(layout):
        _unpacked(wheel, context)


def _unpacked(wheel: Wheel, context: BuildContext) -> Path:
    keep = GPU_FILES if wheel == ONNXRUNTIME_GPU else ("*.so*",)
    return wheel_files(wheel, keep=keep, context=context)


def closure_of_provider(provider: Path) -> Closure:
    """Closure of the provider: what it needs of the device or a layout, and what it only names."""
    return closure_of([provider], among=(), elsewhere=(*HOST, *DRIVER, *LOAD_ORDER), versioned=VERSIONED)


def _make(folder: Path, choice: Choice, host: Sequence[SystemLibrary], context: BuildContext) -> None:
    made = RuntimeFolder(folder)
    wheel = _unpacked(ONNXRUNTIME_GPU, context)
    made.add_onnxruntime(wheel, SHARED)
    provider = wheel_file(wheel, PROVIDER)
    closure = closure_of_provider(provider)
    facts = _lay_provider(provider, made, closure.unused.get(PROVIDER, ()), choice, context)
    made.add_system(host)
    wanted = [name for name in LOAD_ORDER if name in closure.elsewhere]
    if choice.layout != "thin":
        facts["changes"] += _lay_cuda(made, wanted, choice, context)
    # cudart names the C++ runtime since 13.5, and does not look beside itself.
    facts["device"] = [*reversed(HOST), *wanted]
    (folder / "facts.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")


def _lay_provider(
    whole: Path, made: RuntimeFolder, unused: Sequence[str], choice: Choice, context: BuildContext
) -> dict[str, list[str]]:
    """The provider: what it does not use unnamed, its own folder searched, and pruned."""
    notes: list[str] = []
    file = made.add(whole)
    made.beside_each_other(PROVIDER, drop=unused, context=context)
    content = file.read_bytes()
    units = None
    if choice.operators is not None:
        units = select_units(
            content,
            PROVIDER,
            ONNXRUNTIME_GPU.version,
            choice.operators,
            architectures=choice.architectures,
            note=notes.append,
        )
    if units is None and (opened := opened_libraries(whole)):
        notes.append(f"operators may ask for what {PROVIDER} opens by itself: {', '.join(opened)}")
    pruned = prune(content, PROVIDER, architectures=choice.architectures, units=units, blobs=units is None)
    file.write_bytes(pruned.content)
    changes = [f"{PROVIDER}: {pruned.in_words()}; run path $ORIGIN"]
    changes += [f"{PROVIDER}: no longer names {name}, of which it imports nothing" for name in unused]
    return {
        "capabilities": [dotted(each) for each in pruned.architectures],
        "listed": [] if units is None else ["yes"],
        "changes": changes,
        "notes": notes,
    }


def _lay_cuda(made: RuntimeFolder, names: Sequence[str], choice: Choice, context: BuildContext) -> list[str]:
    """CUDA's runtime and cuBLAS, as they are or, with ``lite``, pruned to the architectures; what was changed."""
    changes = []
    folders = {wheel: _unpacked(wheel, context) for wheel in (CUBLAS, CUDART)}
    for name in names:
        wheel = next(wheel for wheel, folder in folders.items() if any(folder.rglob(name)))
        file, how = made.add(wheel_file(folders[wheel], name)), "unmodified"
        content = file.read_bytes()
        if choice.layout == "lite" and _has_device_code(content, name):
            pruned = prune(content, name, architectures=choice.architectures, nearest=False)
            file.write_bytes(pruned.content)
            how = f"changed: {pruned.in_words()}"
            changes.append(f"{name}: {pruned.in_words()}, at the builder's own wish (prune_vendor)")
        made.add_license(name.partition(".so")[0], cuda_terms(name, wheel, how=how))
    return changes


def _has_device_code(content: bytes, name: str) -> bool:
    try:
        device_code(read_image(content, name), name)
    except BundleError:
        return False
    return True
