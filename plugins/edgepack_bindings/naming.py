"""What packages around a libembed have in common: their version, their name, and the library itself."""

import re
from collections.abc import Mapping

from edgepack.api import Bundle, Target, UsageError

LIBRARY = "lib/libembed.so"
VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?")
"""As Go, Rust and Maven take them."""


def require_library(bundle: Bundle) -> None:
    """Raises ``UsageError`` for a bundle that has none."""
    if bundle.manifest["runner"].get("library") != LIBRARY:
        raise UsageError(f"this bundle has no {LIBRARY}, which the package calls", hint="--set library=true")


def require_version(target: Target, form: str) -> None:
    """Raises ``UsageError`` for a target whose version is not one of the form's."""
    if not VERSION.fullmatch(target.version):
        raise UsageError(
            f"{target.version!r} is not a valid version of package form {form}",
            hint='e.g. --set package.version="1.2.0"',
        )


def name_in(target: Target, form: str, *, key: str, pattern: re.Pattern[str], example: str) -> str:
    """The name that the table ``[x-FORM]`` gives, else an empty one. Raises ``UsageError`` for anything else in the table."""
    own: Mapping[str, object] = target.extra.get(form, {})
    name = own.get(key, "")
    if {*own} - {key} or not isinstance(name, str) or (name and not pattern.fullmatch(name)):
        raise UsageError(
            f"[x-{form}] says " + ", ".join(f"{each} = {value!r}" for each, value in own.items()),
            hint=f'it takes {key}, the package\'s name, e.g. {key} = "{example}"',
        )
    return name


def name_of_model(bundle: Bundle) -> str:
    """The model's name in small letters, digits and hyphens."""
    model = str(bundle.manifest["model"]["name"]).rpartition("/")[2]
    return re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-") or "model"
