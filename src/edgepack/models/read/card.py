"""The model card: which licence a model is under."""

import re
from pathlib import Path

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

_FIELD = re.compile(r"^(license|license_name):[ \t]*(.*)$", re.MULTILINE)


def read_license(card: Path) -> str | None:
    """The SPDX identifier that a model card's front matter names, ``LicenseRef-…`` for others, or ``None``."""
    try:
        text = card.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    front = re.match(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", text, re.DOTALL | re.MULTILINE)
    if front is None:
        return None
    fields = {key: _scalar(value, front.group(1), key) for key, value in _FIELD.findall(front.group(1))}
    name = fields.get("license")
    if name in ("other", "unknown") and fields.get("license_name"):
        name = fields["license_name"]
    return spdx(name) if name else None


def spdx(name: str) -> str:
    """The SPDX identifier for the hub's name of a licence."""
    return _SPDX.get(name.lower()) or "LicenseRef-" + re.sub(r"[^A-Za-z0-9.-]+", "-", name)


def _scalar(value: str, front: str, key: str) -> str:
    """A YAML scalar, or the first entry of a YAML list, without quotes."""
    value = re.sub(r"\s+#.*$", "", value).strip()
    if not value:
        entry = re.search(rf"^{key}:[ \t]*\r?\n[ \t]*-[ \t]*(.+)$", front, re.MULTILINE)
        value = entry.group(1).strip() if entry else ""
    return value.strip("[]").split(",")[0].strip().strip("'\"")
