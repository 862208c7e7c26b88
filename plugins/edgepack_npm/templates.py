"""Parts that packages have in common: modules with what is the bundle's own filled in, and the tarball."""

import json
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from edgepack.api import Bundle
from edgepack.api.axes import TarEntry, bundle_entries, write_tgz

ENGINES = {"node": ">=20"}
INDEX = {"types": "./index.d.mts", "default": "./index.mjs"}
"""What a program gets that imports the package by its name."""
MTIME = 499162500
"""1985-10-26: what npm itself writes, so that no file is from before 1980."""


def filled(module: str, **values: str) -> str:
    """A file of `js/` with each ``{{NAME}}`` replaced."""
    text = (files("edgepack_npm") / "js" / module).read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def write_package(
    bundle: Bundle,
    destination: Path,
    described: Mapping[str, Any],
    texts: Mapping[str, str],
    beside: Iterable[TarEntry],
) -> None:
    """Write the tarball: package.json, texts by their name, what else lies beside the bundle, and the bundle."""
    document = json.dumps(described, indent=2, ensure_ascii=False) + "\n"
    with destination.open("wb") as out:
        write_tgz(out, _entries(bundle, {"package.json": document, **texts}, beside), mtime=MTIME)


def _entries(bundle: Bundle, texts: Mapping[str, str], beside: Iterable[TarEntry]) -> Iterator[TarEntry]:
    """Files only: npm makes folders as it needs them."""
    for name, text in texts.items():
        yield TarEntry(name=f"package/{name}", source=text.encode())
    yield from beside
    for entry in bundle_entries(bundle, top="package/bundle"):
        if isinstance(entry.source, Path) and entry.source.is_file():
            yield entry


def described(
    bundle: Bundle, *, name: str, version: str, how: str, exports: Mapping[str, Any], **more: Any
) -> dict[str, Any]:
    """Content of package.json; ``exports`` stand before those of every package."""
    return {
        "name": name,
        "version": version,
        "description": f"Text embeddings by {bundle.manifest['model']['name']}, {how}, with no dependencies",
        "license": "SEE LICENSE IN bundle/LICENSES/NOTICES.txt",
        "type": "module",
        "exports": {**exports, "./package.json": "./package.json"},
        "types": INDEX["types"],
        **more,
    }
