"""The modules of a package, with what is the bundle's own filled in."""

import re
from importlib.resources import files

from edgepack.api import Bundle


def filled(module: str, **values: str) -> str:
    """A file of `js/` with each ``{{NAME}}`` replaced."""
    text = (files("edgepack_npm") / "js" / module).read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def package_name(bundle: Bundle, name: str) -> str:
    """Name of a package; as its model is called where nobody named it."""
    model = str(bundle.manifest["model"]["name"]).rpartition("/")[2]
    return name or re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-") or "model"
