"""musl inside a shared library: glibc, musl and Android's bionic load the same file, which asks none of them for anything."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from edgepack.api import BuildContext, UsageError
from edgepack.api.axes import Processor
from edgepack_musl.libc import Musl

SCHEMA = "1"
"""Changes when it is made otherwise."""
PAGE = 16384
"""Bytes of the largest page that devices of phones have."""
FLAGS = (
    *("-std=gnu99", "-O2", "-g0", "-fPIC", "-ffreestanding", "-fno-builtin", "-fno-strict-aliasing", "-w"),
    *("-fomit-frame-pointer", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-nostdinc"),
)
OBJECT = "inside.o"


@dataclass(frozen=True)
class AnyLibc(Musl):
    """The C library of a library: musl, but for what asks a thread who it is (``csrc/inside``)."""

    @cached_property
    def revision(self) -> str:
        words = (super().revision, SCHEMA, *FLAGS, self.cpu, *_sources().values())
        return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]

    @property
    def packs_relocations(self) -> bool:
        """The caller's loader places it, whichever that is."""
        return False

    def library_start(
        self, zig: Path, platform: str, *, identity: str, context: BuildContext
    ) -> tuple[Path, ...]:
        inputs = {"toolchain": identity, "revision": self.revision}
        made = context.store.cached(
            "musl-inside", inputs, lambda folder: self._compile(zig, platform, folder, context)
        )
        return (made / OBJECT,)

    def program_flags(self, processor: Processor) -> tuple[str, ...]:
        raise UsageError("what any C library loads is a library, and no program")

    def library_flags(self, processor: Processor) -> tuple[str, ...]:
        pages = ("-z", f"max-page-size={PAGE}", "-z", f"common-page-size={PAGE}")
        return ("-shared", "-z", "text", "-z", "nodelete", *pages)

    def _compile(self, zig: Path, platform: str, folder: Path, context: BuildContext) -> None:
        work = context.work_dir / "musl-inside"
        work.mkdir(exist_ok=True)
        for name, text in _sources().items():
            (work / name).write_text(text, encoding="utf-8")
        library, arch = zig.parent / "lib", platform.partition("-")[0]
        musl = library / "libc/musl"
        headers = [
            *(musl / "arch" / arch, musl / "arch/generic", musl / "src/include", musl / "src/internal"),
            *(musl / "src", musl / "src/malloc/mallocng"),
            *(
                library / "libc/include" / platform,
                library / "libc/include/generic-musl",
                library / "include",
            ),
        ]
        command: list[str | Path] = [
            zig,
            "clang",
            "-target",
            platform,
            *FLAGS,
            *self.flags,
            *(f"-I{each}" for each in headers),
        ]
        context.run([*command, "-c", "inside.c", "-o", folder / OBJECT], cwd=work)


def _sources() -> Mapping[str, str]:
    folder = files("edgepack_musl") / "csrc/inside"
    return {
        each.name: each.read_text(encoding="utf-8")
        for each in sorted(folder.iterdir(), key=lambda each: each.name)
    }
