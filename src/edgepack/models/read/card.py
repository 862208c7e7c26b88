"""The model card: which licence a model is under, what it is for, what it was made from."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from edgepack.errors import EdgepackError
from edgepack.models.read.model_folder import ModelFolder
from edgepack.models.read.modules import pooling_modes
from edgepack.records.target import PoolingMode
from edgepack.toml_schema import read_foreign

_SPDX = {
    "apache-2.0": "Apache-2.0",
    "mit": "MIT",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "bsl-1.0": "BSL-1.0",
    "cc0-1.0": "CC0-1.0",
    "cc-by-4.0": "CC-BY-4.0",
    "cc-by-sa-3.0": "CC-BY-SA-3.0",
    "cc-by-sa-4.0": "CC-BY-SA-4.0",
    "cc-by-nc-4.0": "CC-BY-NC-4.0",
    "cc-by-nc-sa-4.0": "CC-BY-NC-SA-4.0",
    "cc-by-nc-nd-4.0": "CC-BY-NC-ND-4.0",
    "gpl-2.0": "GPL-2.0-only",
    "gpl-3.0": "GPL-3.0-only",
    "lgpl-2.1": "LGPL-2.1-only",
    "lgpl-3.0": "LGPL-3.0-only",
    "agpl-3.0": "AGPL-3.0-only",
    "mpl-2.0": "MPL-2.0",
    "isc": "ISC",
    "unlicense": "Unlicense",
    "zlib": "Zlib",
    "wtfpl": "WTFPL",
}
"""The hub's names, which are SPDX's in lower case where SPDX has the licence at all."""

_FIELD = re.compile(r"^(\w+):[ \t]*(.*)$", re.MULTILINE)

_READ = ("license", "license_name", "base_model", "pipeline_tag", "tags")

_POOLS: Mapping[PoolingMode, str] = {
    "cls": r"cls_pooling|last_hidden_state\[:, ?0\b|model_output\[0\]\[:, ?0\b|embeddings\[:, ?0\]",
    "mean": r"def (mean|average)_pool|average_pool\(|mean_pooling\(",
    "last": r"last_token_pool",
}
"""Code that cards show, by the pooling that it does."""
_PRINTED = re.compile(r"Pooling\((\{[^{}]{0,4000}\})\)")
"""How sentence-transformers prints a Pooling module into the cards that it writes."""


MOST = 8 << 20
"""Bytes of a card that are read; of those with all results of MTEB in them the largest have half a megabyte."""


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    license: str | None = None
    """SPDX identifier; ``LicenseRef-…`` for others."""
    bases: tuple[str, ...] = ()
    """The models that it was made from."""
    task: str = ""
    """The hub's ``pipeline_tag``."""
    tags: tuple[str, ...] = ()
    pooling: PoolingMode | None = None
    """What the code that it shows does, when that is one thing."""


def read_card(folder: ModelFolder) -> ModelCard:
    """An empty one where there is no card; without front matter, only the text is read."""
    try:
        text = read_foreign(folder.directory / "README.md", most=MOST).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ModelCard()
    found = re.match(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", text, re.DOTALL | re.MULTILINE)
    front = found.group(1) if found else ""
    said = dict(_FIELD.findall(front))
    fields = {key: _entries(said[key], front, key) for key in _READ if key in said}
    (license,) = fields.get("license", ())[:1] or ("",)
    if license in ("other", "unknown"):
        (license,) = fields.get("license_name", ())[:1] or (license,)
    return ModelCard(
        license=spdx(license) if license else None,
        bases=fields.get("base_model", ()),
        task="".join(fields.get("pipeline_tag", ())[:1]),
        tags=fields.get("tags", ()),
        pooling=_pooling(text),
    )


def _pooling(text: str) -> PoolingMode | None:
    if printed := _PRINTED.search(text):
        try:
            said = ast.literal_eval(printed.group(1))
            modes = pooling_modes({str(key): value for key, value in said.items()})
        except (ValueError, TypeError, AttributeError, SyntaxError, EdgepackError):
            return None
        except (MemoryError, RecursionError):  # what Python's parser says of expressions within one another
            return None
        return modes[0] if len(modes) == 1 else None
    shown = [mode for mode, code in _POOLS.items() if re.search(code, text)]
    return shown[0] if len(shown) == 1 else None


def spdx(name: str) -> str:
    """The SPDX identifier for the hub's name of a licence."""
    return _SPDX.get(name.lower()) or "LicenseRef-" + re.sub(r"[^A-Za-z0-9.-]+", "-", name)


def _entries(value: str, front: str, key: str) -> tuple[str, ...]:
    """A YAML scalar, or the entries of a YAML list, without quotes."""
    value = re.sub(r"(?<=\s)#.*$", "", value).strip()
    if value:
        entries = value.strip("[]").split(",")
    else:
        block = re.search(rf"^{key}:[ \t]*\r?\n((?:[ \t]*-[ \t]*.+\n?)*)", front, re.MULTILINE)
        entries = re.findall(r"-[ \t]*(.+)", block.group(1)) if block else []
    return tuple(entry.strip().strip("'\"") for entry in entries if entry.strip())
