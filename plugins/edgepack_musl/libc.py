"""musl, as zig compiles it from its sources: linked in whole, so that a program needs nothing of its device but Linux."""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from edgepack.api import BuildContext, UsageError
from edgepack.api.axes import Processor
from edgepack.api.kit import HostLibraries, archive_symbols, zig_environment, zig_links

VERSION = "1.2.5"
"""musl's, in zig 0.14."""
SCHEMA = "1"
"""Changes when it is made otherwise."""
START, OWN, LIBC, RUNTIME = "rcrt1.o", "edgepack.a", "musl.a", "libcompiler_rt.a"
"""What runs before ``main``; what edgepack has in the place of some of musl; musl; zig's runtime of the compiler."""
FLAGS = ("-O2", "-g0", "-fPIC", "-ffreestanding", "-fno-builtin", "-fno-sanitize=all", "-fomit-frame-pointer")
"""Without the compiler's own memcpy, which would call itself."""
THUMB = {"arm-linux-musleabihf": "thumb-linux-musleabihf"}
"""What zig calls a platform with code of half the width: musl is a fifth smaller in it."""
STACK = 8 << 20
"""Bytes of a thread's stack, as glibc has it; musl's own are 128 kB. Pages that are not touched cost nothing."""


@dataclass(frozen=True)
class Musl:
    """musl, in every program that is linked."""

    flags: tuple[str, ...] = ()
    """What edgepack's own part of it is compiled with on a processor, beside ``FLAGS``."""
    cpu: str = ""
    """What musl itself is compiled for, in zig's words; empty: each processor of the platform."""

    @property
    def glibc(self) -> None:
        return None

    @cached_property
    def revision(self) -> str:
        words = (SCHEMA, *FLAGS, *self.flags, *_sources().values())
        return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]

    @property
    def ends_threads(self) -> bool:
        return False

    @property
    def packs_relocations(self) -> bool:
        """The program loads itself, by what is linked in."""
        return True

    @property
    def defines(self) -> tuple[str, ...]:
        """libc++'s own header for musl includes wide characters, which it is compiled without: what else it has, in two words."""
        return (
            "_LIBCPP_HAS_MUSL_LIBC",
            "_LIBCPP___LOCALE_LOCALE_BASE_API_MUSL_H",
            "strtoll_l(text,end,base,locale)=strtoll(text,end,base)",
            "strtoull_l(text,end,base,locale)=strtoull(text,end,base)",
        )

    def platform(self, processor: Processor) -> str:
        return processor.triple

    def headers(self, processor: Processor) -> tuple[str, ...]:
        # zig has one folder for all of 32-bit ARM's ways to pass numbers.
        return (f"libc/include/{processor.triple.removesuffix('eabihf')}", "libc/include/generic-musl")

    def libraries(self, zig: Path, platform: str, *, identity: str, context: BuildContext) -> HostLibraries:
        musl = self._made(zig, platform, identity, context)
        own = context.store.cached(
            "musl-own",
            {"toolchain": identity, "revision": self.revision},
            lambda folder: _compile_own(zig, platform, self.flags, folder, context),
        )
        libraries = (own / OWN, musl / LIBC, musl / RUNTIME)
        return HostLibraries(files=libraries, offered=frozenset().union(*map(archive_symbols, libraries)))

    def start(self, zig: Path, platform: str, *, identity: str, context: BuildContext) -> Path:
        return self._made(zig, platform, identity, context) / START

    def library_start(
        self, zig: Path, platform: str, *, identity: str, context: BuildContext
    ) -> tuple[Path, ...]:
        return ()

    def program_flags(self, processor: Processor) -> tuple[str, ...]:
        return ("-static", "-pie", "--no-dynamic-linker", "-z", "text", "-z", f"stack-size={STACK}")

    def library_flags(self, processor: Processor) -> tuple[str, ...]:
        raise UsageError(
            "there are no shared libraries for devices with musl: each program has its C library inside",
            hint="--set runner=native without library; libembed and `edgepack runtime lib` are for targets with glibc",
        )

    def licenses(self, zig: Path, version: str) -> Mapping[str, Path]:
        return {f"musl-{VERSION}.txt": zig.parent / "lib/libc/musl/COPYRIGHT"}

    def _made(self, zig: Path, platform: str, identity: str, context: BuildContext) -> Path:
        """Files that zig links an empty program of, from the store."""
        action = ["build-exe", "-fPIE", *([f"-mcpu={self.cpu}"] if self.cpu else [])]

        def make(folder: Path) -> None:
            text = "int main(void) { return 0; }\n"
            words = zig_links(zig, THUMB.get(platform, platform), action, text, context)
            for name, kept in ((START, START), ("libc.a", LIBC), (RUNTIME, RUNTIME)):
                shutil.copyfile(next(word for word in words if word.endswith(f"/{name}")), folder / kept)

        cpu = {"cpu": self.cpu} if self.cpu else {}
        return context.store.cached("musl", {"toolchain": identity, "schema": SCHEMA, **cpu}, make)


def _sources() -> Mapping[str, str]:
    folder = files("edgepack_musl") / "csrc"
    return {
        each.name: each.read_text(encoding="utf-8") for each in folder.iterdir() if each.name.endswith(".c")
    }


def _compile_own(zig: Path, platform: str, flags: Sequence[str], folder: Path, context: BuildContext) -> None:
    work = context.work_dir / "musl"
    compiler: list[str | Path] = [zig, "cc", "-target", THUMB.get(platform, platform), *FLAGS, *flags]
    work.mkdir(exist_ok=True)
    objects = []
    for name, text in sorted(_sources().items()):
        (work / name).write_text(text, encoding="utf-8")
        objects.append(Path(name).with_suffix(".o").name)
        context.run(
            [*compiler, "-c", name, "-o", objects[-1]],
            cwd=work,
            env=zig_environment(work / "cache"),
            log_file=work / "compile.log",
        )
    context.run([zig, "ar", "rcsD", folder / OWN, *objects], cwd=work)
