"""A linked file laid out for Windows, and signed where the target says by what."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepack.api import BuildContext, Target, TargetError
from edgepack.api.kit import sha256_of
from edgepack_windows.imports import require_imports
from edgepack_windows.pe import windows_library, windows_program
from edgepack_windows.registers import require_no_thread_register

SCHEMA = "1"
"""Changes when the same program is laid out otherwise."""
SIGNING = "authenticode names {unsigned} and {signed}, each as a word of its own (docs/windows.md)"


@dataclass(frozen=True, kw_only=True)
class PeLayout:
    """Settings of a target for its files for Windows."""

    target: str
    serves: bool
    """Whether a file may import sockets: a program with the server may, the library never does."""
    sign: tuple[str, ...]
    """The command that signs a file (Authenticode), with ``{unsigned}`` and ``{signed}`` for files; empty: none."""
    context: BuildContext


def layout_of(target: Target, options: Mapping[str, Any], *, context: BuildContext) -> PeLayout:
    """By the options ``serve`` and ``authenticode``. Raises ``TargetError``."""
    said = options["authenticode"] or ""
    words = tuple(shlex.split(said))
    if words and not {"{unsigned}", "{signed}"} <= set(words):
        raise TargetError(
            f"target {target.name}: authenticode = {said!r} does not say where the program is", hint=SIGNING
        )
    return PeLayout(target=target.name, serves=options["serve"], sign=words, context=context)


def lay_file(elf: Path, destination: Path, *, layout: PeLayout) -> None:
    """``destination``, a ``.exe`` or a ``.dll``, of a program or a library that was linked.

    Raises ``BundleError`` for what Windows would not run or load, ``TargetError`` where the signing command makes no file.
    """
    unsigned = _laid_out(elf, destination.name, layout)
    if layout.sign:
        sign_file(unsigned, destination, layout=layout)
    else:
        destination.write_bytes(unsigned.read_bytes())


def sign_file(unsigned: Path, signed: Path, *, layout: PeLayout) -> None:
    """Before the manifest is made, which has its digest."""
    places = {"{unsigned}": str(unsigned), "{signed}": str(signed)}
    layout.context.run([places.get(word, word) for word in layout.sign])
    if not signed.is_file():
        raise TargetError(
            f"target {layout.target}: {layout.sign[0]} signed nothing: there is no {signed.name}",
            hint=SIGNING,
        )
    require_imports(signed.read_bytes(), name=signed.name, serves=layout.serves)
    layout.context.note(f"{signed.name} signed by {Path(layout.sign[0]).name}")


def _laid_out(elf: Path, name: str, layout: PeLayout) -> Path:
    """The file as Windows wants it, made once."""

    def make(folder: Path) -> None:
        require_no_thread_register(elf)
        lay_out = windows_library if name.endswith(".dll") else windows_program
        laid_out = lay_out(elf.read_bytes(), name=name)
        require_imports(laid_out, name=name, serves=layout.serves)
        (folder / name).write_bytes(laid_out)

    inputs = {"program": sha256_of(elf), "schema": SCHEMA}
    return layout.context.store.cached("windows-program", inputs, make) / name
