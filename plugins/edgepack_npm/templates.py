"""The modules of a package, with what is the bundle's own filled in."""

from importlib.resources import files


def filled(module: str, **values: str) -> str:
    """A file of `js/` with each ``{{NAME}}`` replaced."""
    text = (files("edgepack_npm") / "js" / module).read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", value)
    return text
