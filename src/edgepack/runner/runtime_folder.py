"""A runtime out of wheels for a bundle: its libraries and what goes along with them, and their licences, in one folder."""

import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import MissingToolError, ToolError
from edgepack.fetch.wheels import wheel_file
from edgepack.licenses import license_text
from edgepack.records.runtime import ONNX_RUNTIME, ExecutionProvider, RuntimeArtifact, SourceFile
from edgepack.runner.freeze.licenses import package_license, package_version
from edgepack.tools import find

_SCRIPT = """\
import ctypes, sys
for name in sys.argv[1:]:
    ctypes.CDLL(name)
    print(next(line.split()[-1] for line in open("/proc/self/maps") if line.rstrip().rpartition("/")[2].startswith(name)))
"""
PACKAGES = {"libstdc++.so.6": "libstdc++6", "libgcc_s.so.1": "libgcc-s1", "libz.so.1": "zlib1g"}
MAIN = "libonnxruntime.so*"


@dataclass(frozen=True, kw_only=True)
class SystemLibrary:
    """A shared library of this machine."""

    name: str
    """As others ask for it, e.g. ``libz.so.1``."""
    file: Path
    license: str
    """Its text."""
    version: str = ""
    """Upstream's, where the package manager knows it."""


def system_libraries(names: Iterable[str], *, context: BuildContext) -> tuple[SystemLibrary, ...]:
    """Libraries of this machine that go along because a device need not have them, e.g. libstdc++, with their licences.

    Raises ``MissingToolError`` for one that its loader does not find.
    """
    return tuple(_found(name, context) for name in names)


def _found(name: str, context: BuildContext) -> SystemLibrary:
    try:
        # The loader itself is asked, in a process that has nothing of ours loaded.
        said = context.run([sys.executable, "-I", "-S", "-c", _SCRIPT, name])
    except ToolError as error:
        raise MissingToolError(
            f"{name} is not on this machine, but the bundle requires it",
            hint=f"apt-get install {PACKAGES.get(name, name)}",
        ) from error
    component = component_of(name)
    text = package_license(name, context=context) or license_text(component)
    return SystemLibrary(
        name=name,
        file=Path(said.strip()).resolve(),
        version=package_version(name, context=context) or "",
        license=text or f"{component}: no licence text was found on the machine that built this.\n",
    )


@dataclass(frozen=True)
class RuntimeFolder:
    """``lib/`` and ``licenses/`` in a folder, filled by a builder and then what its ``RuntimeArtifact`` is made of."""

    folder: Path

    @property
    def lib(self) -> Path:
        return self.folder / "lib"

    @property
    def onnxruntime(self) -> Path:
        """ONNX Runtime itself."""
        return wheel_file(self.lib, MAIN)

    @property
    def companions(self) -> tuple[Path, ...]:
        """All libraries but that, sorted."""
        main = self.onnxruntime
        return tuple(path for path in sorted(self.lib.iterdir()) if path != main)

    @property
    def licenses(self) -> tuple[Path, ...]:
        """Texts, each named after its component; sorted."""
        return tuple(sorted((self.folder / "licenses").iterdir()))

    def artifact(
        self,
        *,
        version: str,
        toolchain: str,
        library: str = MAIN,
        name: str = ONNX_RUNTIME,
        kind: str = "stock",
        provider: ExecutionProvider | None = None,
        changes: tuple[str, ...] = (),
        source_files: tuple[SourceFile, ...] = (),
    ) -> RuntimeArtifact:
        """Record of the folder as a runtime: every operator kernel is there, so that none are matched.

        ``library`` names the file in ``lib`` that the program opens, or is a pattern for it; all others are its companions.
        A runtime that is not ONNX Runtime has a ``name`` and a word for ``kind``. Without ``provider``, the processor runs the
        model. Raises ``BundleError`` where there is no such library.
        """
        main = wheel_file(self.lib, library)
        return RuntimeArtifact(
            library=main,
            name=name,
            version=version,
            kind=kind,
            provides=None,
            toolchain=toolchain,
            licenses=self.licenses,
            companions=tuple(path for path in sorted(self.lib.iterdir()) if path != main),
            provider=provider,
            changes=changes,
            source_files=source_files,
        )

    def add(self, library: Path, *, name: str = "") -> Path:
        """A copy of a library, under the name that others ask for it."""
        self.lib.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copyfile(library, self.lib / (name or library.name)))

    def add_license(self, component: str, *texts: Path | str) -> None:
        """Write the licence of a component: files and words, with an empty line between them."""
        parts = [text.encode() if isinstance(text, str) else text.read_bytes() for text in texts]
        folder = self.folder / "licenses"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{component}.txt").write_bytes(b"\n\n".join(part.rstrip() for part in parts) + b"\n")

    def add_onnxruntime(self, wheel: Path, *libraries: str) -> None:
        """ONNX Runtime out of one of its wheels, unpacked, with some of the libraries beside it."""
        for pattern in (MAIN, *libraries):
            self.add(wheel_file(wheel, pattern))
        self.add_license(
            "onnxruntime", wheel_file(wheel, "LICENSE"), wheel_file(wheel, "ThirdPartyNotices.txt")
        )

    def add_system(self, libraries: Iterable[SystemLibrary]) -> None:
        """Libraries of the building machine, with their licences."""
        for library in libraries:
            self.add(library.file, name=library.name)
            component = component_of(library.name)
            self.add_license(
                f"{component}-{library.version}" if library.version else component, library.license
            )

    def beside_each_other(self, name: str, *, drop: Iterable[str] = (), context: BuildContext) -> None:
        """Let a library find its neighbours (``$ORIGIN`` as run path), and no longer name those in ``drop``."""
        unnamed = [word for each in drop for word in ("--remove-needed", each)]
        context.run([find("patchelf"), *unnamed, "--set-rpath", "$ORIGIN", self.lib / name])


def onnxruntime_files(*libraries: str) -> tuple[str, ...]:
    """Patterns of the files that ``add_onnxruntime`` wants of a wheel of ONNX Runtime, as ``wheel_files`` takes it."""
    names = (MAIN, *libraries)
    return (*(f"*/capi/{name}" for name in names), "onnxruntime/LICENSE", "onnxruntime/ThirdPartyNotices.txt")


def component_of(library: str) -> str:
    """Name under which a library's licence is filed, e.g. ``libz`` for ``libz.so.1``."""
    return library.partition(".so")[0]
