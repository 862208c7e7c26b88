"""What other plugins take of the bindings: JNI's part, for a libembed that Java loads as it is."""

import re
from collections.abc import Mapping
from importlib.resources import files

SOURCE = "jni.c"
INSIDE = "#define LIBEMBED_INSIDE\n"


def jni_sources() -> Mapping[str, str]:
    """File name → text of C that belongs into libembed, beside its own header."""
    folder = files("edgepack_bindings") / "csrc"
    texts = {
        name: (folder / name).read_text(encoding="utf-8").replace('"embed.h"', '"libembed/embed.h"')
        for name in (SOURCE, "jni.h", "opened.h")
    }
    return {**texts, SOURCE: INSIDE + texts[SOURCE]}


def jni_exports() -> tuple[str, ...]:
    """Functions that Java's class finds in it."""
    return tuple(sorted(re.findall(r"\bJava_\w+", jni_sources()[SOURCE])))
