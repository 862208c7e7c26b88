"""What other plugins may use of this one."""

from edgepack_web.modules import joined
from edgepack_web.page import JS


def inline_module() -> str:
    """A module, ``openInline``, that runs a bundle's model in the thread that imports it, of files that it is given."""
    return joined(JS / "inline.mjs")
