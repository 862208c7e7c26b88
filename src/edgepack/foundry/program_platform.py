"""Platforms of which there are programs alone: each has its runtime inside, and none is made by itself."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

from edgepack.context import BuildContext
from edgepack.errors import UsageError
from edgepack.foundry.platform import Emulator, Form, RuntimeOptions
from edgepack.foundry.release import Release
from edgepack.foundry.toolchain import Toolchain


class MakeToolchain(Protocol):
    def __call__(self, options: RuntimeOptions, *, context: BuildContext) -> Toolchain: ...


class FindEmulator(Protocol):
    def __call__(self, *, context: BuildContext) -> Emulator: ...


@dataclass(frozen=True, kw_only=True)
class ProgramPlatform:
    """A ``RuntimePlatform`` whose system gets programs and no ONNX Runtime beside them."""

    os: str
    architectures: tuple[str, ...]
    release: Release
    form: Form
    magic: bytes
    """Beginning of the system's programs."""
    refusal: str
    """What is said where a runtime is asked for, and ``hint``."""
    hint: str
    check: Callable[[RuntimeOptions], None]
    toolchain: MakeToolchain
    emulator: FindEmulator
    libc: None = None
    processor: None = None
    next_step: str = "{library}"

    def recognizes(self, file: Path) -> bool:
        try:
            with file.open("rb") as stream:
                return stream.read(len(self.magic)) == self.magic
        except OSError:
            return False

    def no_runtimes(self, *arguments: object, **named: object) -> NoReturn:
        """The answer to all that is asked of a runtime."""
        raise UsageError(self.refusal, hint=self.hint)

    reduce = prove = prove_file = try_model = lay = no_runtimes
