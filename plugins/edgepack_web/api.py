"""What other plugins may use of this one."""

from edgepack_web.npm.modules import ON_ENGINE, joined
from edgepack_web.page import JS


def inline_module(*, engine: bool) -> str:
    """A module, ``openInline``, that runs a bundle's model in the thread that imports it, of files that it is given; ``engine``: on edgepack's
    own kernels, else on ONNX Runtime."""
    return joined(JS / "inline.mjs", ON_ENGINE if engine else None)
