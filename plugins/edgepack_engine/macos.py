"""macOS: programs that zig compiles and links whole, as Mach-O files with an ad-hoc signature. Nothing here runs them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NoReturn, cast

from edgepack.api import BuildContext, MissingToolError, ToolError, UsageError
from edgepack.api.axes import X86_64, LinuxPlatform, RuntimeOptions
from edgepack.api.kit import Toolchain, zig_program
from edgepack.foundry.program_platform import ProgramPlatform
from edgepack.foundry.units import ProgramSources

LINUX = LinuxPlatform(processor=X86_64)
OLDEST = {"aarch64": "11.0", "x86_64": "10.15"}
"""The first macOS that a program runs on; arm64 began with 11."""
MAGIC = b"\xcf\xfa\xed\xfe"
FLAGS = (
    *("-O2", "-DNDEBUG", "-std=c++17", "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden"),
    *("-fstack-protector", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-w"),
)
OWN = "macos"
"""Folder of what the program asks of Linux, as macOS has it."""
LICENSES = ("libc++", "zig")
"""What is linked in, by how the names of their texts begin."""


@dataclass(frozen=True, kw_only=True)
class MacToolchain:
    """zig for one processor of macOS: clang, its own linker, and stubs of libSystem."""

    program: Path
    version: str
    arch: str
    licenses: Mapping[str, Path]

    @property
    def triple(self) -> str:
        return f"{self.arch}-macos.{OLDEST[self.arch]}"

    @property
    def identity(self) -> str:
        own = "".join(text for _, text in own_sources())
        return f"zig {self.version}, {self.triple}, {' '.join(FLAGS)}, {own}"

    def make_program(self, sources: ProgramSources, folder: Path, *, context: BuildContext) -> None:
        """Write the stripped program, and ``licenses/``. Raises ``UsageError`` for libraries, ``ToolError``."""
        if sources.exports:
            raise UsageError("there is no libembed for macOS", hint="leave library out")
        work = context.work_dir / f"macos-{self.arch}-{sources.output}"
        for name, text in (*sources.files.items(), *own_sources()):
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_text(text, encoding="utf-8")
        units = [*sources.units, f"{OWN}/macos.c"]
        cache = {name: str(work / "zig") for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")}
        objects = [f"{name}.o" for name in units]
        with context.progress("compile the program for macOS", len(units), unit="files") as bar:
            for name, made in zip(units, objects, strict=True):
                self._run(["-c", name, "-o", made], name, work, cache, context)
                bar.advance(1)
            self._run(["-s", *objects, "-o", sources.output], "", work, cache, context)
        content = (work / sources.output).read_bytes()
        if not content.startswith(MAGIC):
            raise ToolError(f"zig made no Mach-O file of {sources.output}")
        (folder / sources.output).write_bytes(content)
        (folder / sources.output).chmod(0o755)
        (folder / "licenses").mkdir()
        for name, license in self.licenses.items():
            (folder / "licenses" / name).write_bytes(license.read_bytes())

    def _run(
        self, words: list[str], source: str, work: Path, cache: Mapping[str, str], context: BuildContext
    ) -> None:
        c = source.endswith(".c")
        flags = [flag for flag in FLAGS if not c or flag not in ("-std=c++17", "-fno-rtti")]
        places = ["-include", f"{OWN}/macos.h", f"-I{OWN}", "-I.", "-isysteminclude"] if source else []
        command = [self.program, "cc" if c else "c++", "-target", self.triple, *flags, *places, *words]
        context.run(command, cwd=work, env=cache, log_file=work / "compile.log")


def own_sources() -> Iterator[tuple[str, str]]:
    """Place → text of what stands between the program and macOS."""
    yield from _below(files(__package__) / "csrc" / OWN, OWN)


def _below(folder: Traversable, place: str) -> Iterator[tuple[str, str]]:
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        name = f"{place}/{each.name}"
        if each.is_dir():
            yield from _below(each, name)
        else:
            yield name, each.read_text(encoding="utf-8")


def macos() -> ProgramPlatform:
    """macOS on arm64 and x86-64: programs with an encoder of their own."""
    return ProgramPlatform(
        os="macos",
        architectures=tuple(OLDEST),
        release=LINUX.release,
        form=LINUX.form,
        magic=MAGIC,
        refusal="there is no ONNX Runtime for macOS here",
        hint="edgepack bundle --target macos-arm64",
        check=_check,
        toolchain=_toolchain,
        emulator=_no_emulator,
    )


def _check(options: RuntimeOptions) -> None:
    if options.shared:
        raise UsageError(
            "there are no shared libraries for macOS here: no ONNX Runtime and no libembed",
            hint="edgepack bundle --target macos-arm64, without library",
        )
    if options.glibc or options.platform.isa:
        raise UsageError("programs for macOS have no glibc and no isa", hint="omit it")


def _toolchain(options: RuntimeOptions, *, context: BuildContext) -> Toolchain:
    zig = LINUX.toolchain(RuntimeOptions(), context=context)
    made = MacToolchain(
        program=zig_program(),
        version=context.run([zig_program(), "version"]).strip(),
        arch=options.platform.arch,
        licenses={name: text for name, text in zig.licenses().items() if name.startswith(LICENSES)},
    )
    # It compiles programs and no kernel archive: the host asks ``make_program`` of it alone.
    return cast("Toolchain", made)


def _no_emulator(*, context: BuildContext) -> NoReturn:
    raise MissingToolError(
        "nothing here runs programs of macOS", hint="on a Mac: edgepack verify BUNDLE --on ssh://MAC"
    )
