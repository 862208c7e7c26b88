"""What other plugins take of the bindings: JNI's part and Node's, for a libembed that these load as it is."""

import re
from collections.abc import Mapping
from importlib.resources import files

SOURCE = "jni.c"
ADDON = "addon.c"
INSIDE = "#define LIBEMBED_INSIDE\n"


def jni_sources() -> Mapping[str, str]:
    """File name → text of C that belongs into libembed, beside its own header."""
    return _inside(SOURCE, "jni.h", "opened.h")


def jni_exports() -> tuple[str, ...]:
    """Functions that Java's class finds in it."""
    return tuple(sorted(re.findall(r"\bJava_\w+", jni_sources()[SOURCE])))


def node_sources() -> Mapping[str, str]:
    """File name → text of C that makes an addon of libembed. Node's own functions are found in it when it loads that."""
    texts = dict(_inside(ADDON, "napi.h", "opened.h"))
    weak = "".join(
        f"#pragma weak {name}\n" for name in re.findall(r"\bnapi_status (napi_\w+)\(", texts["napi.h"])
    )
    return {**texts, ADDON: weak + texts[ADDON]}


def node_exports() -> tuple[str, ...]:
    """Functions that Node calls to load it."""
    return tuple(sorted(re.findall(r"\bn\w+_v1(?=\()", node_sources()[ADDON])))


def node_modules() -> Mapping[str, str]:
    """File name → text of the modules around an addon."""
    folder = files("edgepack_bindings") / "node"
    return {name: (folder / name).read_text(encoding="utf-8") for name in ("index.mjs", "index.d.mts")}


def _inside(source: str, *headers: str) -> dict[str, str]:
    """A source and its headers, as they are compiled in libembed."""
    folder = files("edgepack_bindings") / "csrc"
    texts = {
        name: (folder / name).read_text(encoding="utf-8").replace('"embed.h"', '"libembed/embed.h"')
        for name in (source, *headers)
    }
    return {**texts, source: INSIDE + texts[source]}
