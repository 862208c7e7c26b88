"""What packages around a libembed have in common: their version, and the library itself."""

import re

from edgepack.api import Bundle, UsageError

LIBRARY = "lib/libembed.so"
VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?")
"""As Go, Rust and Maven take them."""


def require_library(bundle: Bundle) -> None:
    """Raises ``UsageError`` for a bundle that has none."""
    if bundle.manifest["runner"].get("library") != LIBRARY:
        raise UsageError(f"this bundle has no {LIBRARY}, which the package calls", hint="--set library=true")
