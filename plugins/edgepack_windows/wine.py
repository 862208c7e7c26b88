"""wine, which runs programs for Windows where there is none: what ran under it did not run on Windows."""

import shutil
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from edgepack.api import BuildContext, MissingToolError
from edgepack.api.kit import key_of, zig_environment, zig_program

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


@dataclass(frozen=True, kw_only=True)
class Wine:
    """A wine for programs of 64 bits. Each program has a Windows of its own, with nothing in it but kernel32."""

    program: Path
    libraries: Path
    version: str
    name: str = "wine"

    def command(self, processor: str) -> list[str | Path]:
        """What a program's command line begins with, on this machine's processor whichever is named."""
        script = Path(str(files("edgepack_windows") / "data/run_under_wine.sh"))
        return ["sh", script, self.program, self.libraries]

    def library_caller(self, *, context: BuildContext) -> Path:
        """What calls a bundle's library in the proof, as a compiler for Windows makes it. Raises ``ToolError``."""
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


def find_wine(*, context: BuildContext) -> Wine:
    """wine, as it is installed. Raises ``MissingToolError``."""
    program = wine_program()
    libraries = find_libraries(program) if program else None
    if program is None or libraries is None:
        raise MissingToolError("wine is not installed, which runs programs for Windows here", hint=HINT)
    said = context.run([program, "--version"])
    return Wine(
        program=program, libraries=libraries, version=said.split()[0].removeprefix("wine-") + ", not Windows"
    )


def find_libraries(program: Path) -> Path | None:
    """Where a wine has Windows' own libraries."""
    folders = (Path(place.format(bin=program.resolve().parent)) for place in LIBRARIES)
    return next((folder for folder in folders if (folder / "kernel32.dll").is_file()), None)
