"""Checks of what lies in a finished bundle, without running it: native files, licences."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from edgepack.bundles.manifest import LICENSES
from edgepack.errors import BundleError, FloorError
from edgepack.records.runtime import ONNX_RUNTIME
from edgepack.testing.check import Broken, check
from edgepack.testing.kit import TargetSubject

if TYPE_CHECKING:
    from pathlib import Path


@check(
    "runs-on-its-platform",
    "Every native file is for the target's processor and C library, none newer than it says; what libraries they need "
    "lies in the bundle, or is the C library's.",
    section="docs/targets.md",
)
def runs_on_its_platform(subject: TargetSubject) -> None:
    from edgepack.bundles.floor import require_compatible_elf

    bundle = subject.built.bundle
    provider = (bundle.manifest["runtime"] or {}).get("provider", {})
    device = (*provider.get("libraries", ()), *provider.get("system", ()))
    try:
        require_compatible_elf(bundle.directory, subject.target.platform, device=device)
    except (FloorError, BundleError) as error:
        raise Broken(error.message, do=error.hint or "make this file for the target's devices") from error


@check(
    "licences",
    "Each component that the manifest, NOTICES.txt and the bill of materials name has a licence text in LICENSES.",
    section="docs/plugins.md#a-builder",
)
def licences(subject: TargetSubject) -> None:
    from edgepack.bundles.notices import INDEX
    from edgepack.bundles.sbom import SBOM

    bundle = subject.built.bundle
    folder = bundle.directory / LICENSES
    listed = [component["name"] for component in _billed(folder / SBOM)]
    if runtime := bundle.manifest["runtime"]:
        listed.append("onnxruntime" if runtime.get("name", ONNX_RUNTIME) == ONNX_RUNTIME else runtime["name"])
    _, _, rows = (folder / INDEX).read_text(encoding="utf-8").partition("\n\n")
    indexed = [row.split()[-1] for row in rows.splitlines()[1:]]
    for file in dict.fromkeys([*map(_file_of, listed), *indexed]):
        if not _says_something(folder / file):
            raise Broken(
                f"{LICENSES}/{file} is not there, or holds no licence",
                do="name its text, NAME-VERSION.txt, in `licenses` of what the step returns",
            )


def _billed(bill: Path) -> list[dict[str, Any]]:
    """The components of a bill of materials; the bundle's files, which it names too, are under their licences."""
    return [each for each in json.loads(bill.read_bytes())["components"] if each["type"] != "file"]


def _file_of(component: str) -> str:
    from edgepack.bundles.components import Component

    return Component(name=component, version="", kind="", text=b"").file


def _says_something(text: Path) -> bool:
    """Also what the host writes where a runtime came without a licence is none."""
    if not text.is_file():
        return False
    said = text.read_bytes()
    return bool(said.strip()) and b"Its licence text did not come with the library" not in said


CHECKS = (runs_on_its_platform, licences)
