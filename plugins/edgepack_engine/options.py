"""Options of target files."""

from edgepack.api import OptionTable

OPTIONS: OptionTable = {
    "serve": False,
    "chunks": False,
    "polite": False,
    "library": False,
    "attention": ("int8", "float"),
}
