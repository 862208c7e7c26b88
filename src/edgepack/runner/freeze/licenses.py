"""Licence texts of what is frozen in: as found on this machine, else as stored here."""

import importlib.metadata
import re
import shutil
import sysconfig
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import MissingToolError, ToolError
from edgepack.files.elf import elf_files
from edgepack.licenses import license_text
from edgepack.runner.freeze.cxx_runtime import STAND_IN


def write_licenses(program: Path, destination: Path, *, context: BuildContext) -> None:
    """``COMPONENT.txt`` for Python, PyInstaller's bootloader, tokenizers and each shared library below ``program``,
    with the version where it is known: ``COMPONENT-VERSION.txt``."""
    destination.mkdir(parents=True, exist_ok=True)
    texts = {
        "python": python_license() or license_text("python"),
        "pyinstaller": distribution_license("pyinstaller"),
    }
    if any(path.name.startswith("tokenizers") for path in elf_files(program)):
        texts["tokenizers"] = distribution_license("tokenizers") or license_text("tokenizers")
        if crates := _bill_of_crates():
            shutil.copyfile(crates, destination / "tokenizers.cdx.json")
    for name in shared_libraries(program):
        component = name.split(".so")[0]
        version = package_version(name, context=context)
        file = f"{component}-{version}" if version else component
        texts[file] = package_license(name, context=context) or license_text(component)
    for component, text in texts.items():
        if text is None:
            context.note(f"no licence text found for {component}")
        else:
            (destination / f"{component}.txt").write_text(text, encoding="utf-8")


def shared_libraries(program: Path) -> list[str]:
    """Names of the system's libraries that were taken along, e.g. ``libz.so.1``."""
    names = {path.name for path in elf_files(program)} - {STAND_IN}
    return sorted(
        name
        for name in names
        if name.startswith("lib") and ".so" in name and not name.startswith("libpython")
    )


def python_license() -> str | None:
    """The text beside the standard library; distributions put it elsewhere."""
    path = Path(sysconfig.get_path("stdlib")) / "LICENSE.txt"
    return path.read_text(encoding="utf-8") if path.is_file() else None


def distribution_license(name: str) -> str | None:
    """The licence files of an installed distribution, one after the other."""
    listed = importlib.metadata.files(name) or []
    texts = [
        str(file.locate())
        for file in listed
        if ".dist-info" in str(file.parent)
        and file.name.upper().startswith(("LICENSE", "LICENCE", "COPYING"))
    ]
    return "\n\n".join(Path(path).read_text(encoding="utf-8") for path in sorted(texts)) or None


def _bill_of_crates() -> Path | None:
    """Path of the bill of materials of tokenizers' crates: CycloneDX, in its wheels since 0.22."""
    listed = importlib.metadata.files("tokenizers") or []
    found = [Path(str(file.locate())) for file in listed if file.name.endswith(".cyclonedx.json")]
    return next((path for path in found if path.is_file()), None)


def package_license(library: str, *, context: BuildContext) -> str | None:
    """The copyright file of the Debian package that a system library comes from."""
    package = _package(library, context)
    path = Path("/usr/share/doc") / package / "copyright"
    return path.read_text(encoding="utf-8", errors="replace") if package and path.is_file() else None


def package_version(library: str, *, context: BuildContext) -> str | None:
    """Upstream's version of a system library that comes from a Debian package."""
    package = _package(library, context)
    if not package:
        return None
    said = context.run(["dpkg-query", "--show", "--showformat", "${Version}\n", package])
    found = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", said)
    return found[1] if found else None


def _package(library: str, context: BuildContext) -> str:
    """The Debian package that a library comes from; empty: none."""
    try:
        return context.run(["dpkg-query", "--search", f"*/{library}"]).partition(":")[0]
    except (MissingToolError, ToolError):
        return ""
