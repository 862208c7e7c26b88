"""Options of target files."""

from edgepack.api import OptionTable

OPTIONS: OptionTable = {"serve": False, "attention": ("int8", "float")}
