"""wine, which runs programs for Windows where there is none: what ran under it did not run on Windows."""

import platform
import shutil
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from edgepack.api import BuildContext, MissingToolError
from edgepack.api.axes import DownloadError
from edgepack.api.kit import Archive, Package, key_of, zig_environment, zig_program
from edgepack.foundry.proof.emulator import unpack_emulator

CALLER = "call_embed"
CALLER_FLAGS = (
    *("-target", "x86_64-windows-gnu", "-O1", "-s", "-nostdlib", "-fno-builtin", "-fno-stack-protector"),
    "-Wl,--entry=start",
)
HINT = "apt-get install wine64"
PROGRAMS = ("/usr/lib/wine/wine64", "/opt/wine-stable/bin/wine64", "/opt/wine-devel/bin/wine64")
"""Where it is that is not on PATH."""
LIBRARIES = (
    "/usr/lib/x86_64-linux-gnu/wine/x86_64-windows",
    "{bin}/../lib64/wine/x86_64-windows",
    "{bin}/../lib/wine/x86_64-windows",
    "{bin}/../wine/x86_64-windows",
)
"""Where it has Windows' own libraries, beside its program or elsewhere."""
PACKAGES = (
    Archive(
        file="wine64_8.0~repack-4_amd64.deb",
        sha256="4ff56d97fb84c41dd450775f03ae42208f092e822f9baa742dcde951773ecb42",
        size=248020,
        debian=Package(suite="bookworm", kind="deb", name="wine64"),
    ),
    Archive(
        file="libwine_8.0~repack-4_amd64.deb",
        sha256="512b715f32fccf2ebec2b63f23d9d83394d30e27cc5570a8ef92c5d3627ef305",
        size=100355712,
        debian=Package(suite="bookworm", kind="deb", name="libwine"),
    ),
    Archive(
        file="libunwind8_1.6.2-3_amd64.deb",
        sha256="7b297868682836e4c87be349f17e4a56bc287586e3576503e84a5cb5485ce925",
        size=51172,
        debian=Package(suite="bookworm", kind="deb", name="libunwind8"),
    ),
)
"""Debian's, for where wine is not installed."""
_SHARED = "usr/lib/x86_64-linux-gnu"
_DLLS = ("apisetschema", "ntdll", "kernel32", "kernelbase", "ws2_32", "ucrtbase")
KEPT = (
    "usr/lib/wine/wine64",
    "usr/lib/wine/wineserver64",
    "usr/share/wine/nls",
    *(f"{_SHARED}/wine/x86_64-windows/{name}.dll" for name in _DLLS),
    *(f"{_SHARED}/wine/x86_64-unix/{name}.so" for name in ("ntdll", "ws2_32")),
    *(f"{_SHARED}/libunwind.so.8{rest}" for rest in ("", ".0.1")),
)
"""What a program that needs kernel32 and sockets needs of them: 28 MB of 700."""


@dataclass(frozen=True, kw_only=True)
class Wine:
    """A wine for programs of 64 bits. Each program has a Windows of its own, with nothing in it but kernel32."""

    program: Path
    server: Path
    """The program that its processes share."""
    libraries: Path
    version: str
    folder: Path
    """Where all of it lies: what a sandbox shows."""
    variables: tuple[str, ...] = ()
    """What it needs in its environment, as ``NAME=VALUE``."""
    name: str = "wine"

    def command(self, processor: str) -> list[str | Path]:
        """Beginning of a program's command line, on this machine's processor whichever is named."""
        script = Path(str(files("edgepack_windows") / "data/run_under_wine.sh"))
        before = ["env", *self.variables] if self.variables else []
        return [*before, "sh", script, self.folder, self.program, self.libraries]

    def library_caller(self, *, context: BuildContext) -> Path:
        """Program that calls a bundle's library in the proof, compiled as a compiler for Windows makes it. Raises ``ToolError``."""
        zig, source = zig_program(), files("edgepack_windows") / "data" / f"{CALLER}.c"
        text = source.read_text(encoding="utf-8")

        def make(folder: Path) -> None:
            work = context.work_dir / CALLER
            work.mkdir(exist_ok=True)
            (work / source.name).write_text(text, encoding="utf-8")
            command: list[str | Path] = [
                zig,
                "cc",
                *CALLER_FLAGS,
                source.name,
                "-o",
                f"{CALLER}.exe",
                "-lkernel32",
            ]
            context.run(command, cwd=work, env=zig_environment(work / "cache"))
            (folder / f"{CALLER}.exe").write_bytes((work / f"{CALLER}.exe").read_bytes())

        version = context.run([zig, "version"]).strip()
        inputs = {
            "source": key_of({source.name: text}),
            "toolchain": f"zig {version}",
            "flags": " ".join(CALLER_FLAGS),
        }
        return context.store.cached("prover", inputs, make) / f"{CALLER}.exe"


def wine_program() -> Path | None:
    """wine's program for 64 bits, where it is installed."""
    named = (shutil.which("wine64"), *PROGRAMS)
    return next((Path(name) for name in named if name and Path(name).is_file()), None)


def can_have_wine() -> bool:
    """Whether wine is installed, or can be fetched for this machine."""
    return wine_program() is not None or platform.machine() == "x86_64"


def find_wine(*, context: BuildContext) -> Wine:
    """wine, as it is installed, else Debian's, unpacked into the store. Raises ``MissingToolError``."""
    program = wine_program()
    libraries = find_libraries(program) if program else None
    if program and libraries:
        return Wine(
            program=program,
            server=program.with_name("wineserver"),
            libraries=libraries,
            folder=libraries if program.is_relative_to("/usr") else program.resolve().parents[1],
            version=_version(program, (), context),
        )
    if platform.machine() != "x86_64":
        raise MissingToolError("wine is not installed, which runs programs for Windows here", hint=HINT)
    try:
        folder = unpack_emulator(PACKAGES, keep=KEPT, context=context)
    except (DownloadError, MissingToolError) as error:
        message = f"wine is not installed, which runs programs for Windows here: {error.message}"
        raise MissingToolError(message, hint=HINT) from error
    shared, program = folder / _SHARED, folder / "usr/lib/wine/wine64"
    server = program.with_name("wineserver64")
    variables = (f"LD_LIBRARY_PATH={shared}", f"WINESERVER={server}")
    return Wine(
        program=program,
        server=server,
        libraries=shared / "wine/x86_64-windows",
        folder=folder,
        version=_version(program, variables, context),
        variables=variables,
    )


def _version(program: Path, variables: tuple[str, ...], context: BuildContext) -> str:
    said = context.run([program, "--version"], env=dict(each.split("=", 1) for each in variables))
    return said.split()[0].removeprefix("wine-") + ", not Windows"


def find_libraries(program: Path) -> Path | None:
    """Folder of Windows' own libraries in a wine."""
    folders = (Path(place.format(bin=program.resolve().parent)) for place in LIBRARIES)
    return next((folder for folder in folders if (folder / "kernel32.dll").is_file()), None)
