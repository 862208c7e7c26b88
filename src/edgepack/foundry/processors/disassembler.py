"""capstone, which reads machine code."""

from typing import Any

from edgepack.errors import MissingToolError
from edgepack.tools import install_hint

UNKNOWN = "unknown"
"""An instruction that the disassembler does not know."""


def disassembler(architecture: str, *modes: str) -> Any:
    """capstone's for an architecture and its modes, by capstone's names: ``"CS_ARCH_X86", "CS_MODE_64"``.

    Bytes that are no instruction count as one, ``.byte``. Raises ``MissingToolError``.
    """
    try:
        import capstone
    except ImportError as error:
        raise MissingToolError(
            "capstone, the disassembler, is not installed", hint=install_hint("capstone")
        ) from error
    made = capstone.Cs(getattr(capstone, architecture), sum(getattr(capstone, mode) for mode in modes))
    made.skipdata = True
    return made
