"""The npm package of a bundle for Linux: an addon that is libembed itself, for Node, and the bundle beside it."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from edgepack.api import BuildContext, Bundle, Platform, Target, UsageError
from edgepack.api.axes import TarEntry, bundle_entries, write_tgz
from edgepack.bundles.packages import name_of_model
from edgepack_bindings.api import node_modules
from edgepack_engine.api import needs_no_libc, node_addon

CPUS = {"x86_64": "x64", "aarch64": "arm64"}
"""Names of processors as Node has them."""
NODE = ">=20"
MTIME = 499162500
"""As ``package.py`` has it."""
README = """# {name}

{model}, made by edgepack: text embeddings in Node under Linux on {cpu}, natively, with no other package.

```js
import {{ Bundle }} from "{name}";

const bundle = Bundle.open();
const vectors = await bundle.embed(["A man is eating food.", "A dog."]); // Float32Array of {dimension} numbers each
const ids = bundle.tokens("A dog.");
const cosine = await bundle.similarity("A man is eating food.", "Someone is having a meal.");
await bundle.close();
```
"""


@dataclass(frozen=True, kw_only=True)
class NativePackage:
    """The packager (``edgepack.api.axes.Packager``)."""

    version: str
    name: str = ""
    """Of the package; empty: as its model is called."""
    platform: Platform

    def file_name(self, bundle: Bundle) -> str:
        """Name as npm itself gives tarballs, with the processor's, e.g. ``all-minilm-l6-v2-1.0.0-linux-x64.tgz``."""
        name = (self.name or name_of_model(bundle)).lstrip("@").replace("/", "-")
        return f"{name}-{self.version}-linux-{CPUS[self.platform.arch]}.tgz"

    def pack(self, bundle: Bundle, destination: Path, *, context: BuildContext) -> None:
        """Write the package; the same bundle and version give the same bytes. Raises ``MissingToolError``, ``ToolError``."""
        addon = tuple(node_addon(bundle, "package", platform=self.platform, context=context))
        with destination.open("wb") as out:
            write_tgz(out, self._entries(bundle, addon), mtime=MTIME)

    def _entries(self, bundle: Bundle, addon: Iterable[TarEntry]) -> Iterator[TarEntry]:
        """Files only: npm makes folders as it needs them."""
        name, model = self.name or name_of_model(bundle), bundle.manifest["model"]
        cpu = CPUS[self.platform.arch]
        text = README.format(name=name, model=model["name"], dimension=model["dimension"], cpu=cpu)
        described = {
            "name": name,
            "version": self.version,
            "description": f"Text embeddings by {model['name']}, native, with no dependencies",
            "license": "SEE LICENSE IN bundle/LICENSES/NOTICES.txt",
            "type": "module",
            "exports": {
                ".": {"types": "./index.d.mts", "default": "./index.mjs"},
                "./package.json": "./package.json",
            },
            "types": "./index.d.mts",
            "os": ["linux"],
            "cpu": [cpu],
            "engines": {"node": NODE},
        }
        texts = {
            "package.json": json.dumps(described, indent=2, ensure_ascii=False) + "\n",
            "README.md": text,
            **node_modules(),
        }
        for place, content in texts.items():
            yield TarEntry(name=f"package/{place}", source=content.encode())
        yield from addon
        for entry in bundle_entries(bundle, top="package/bundle"):
            if isinstance(entry.source, Path) and entry.source.is_file():
                yield entry


def require_native(target: Target) -> None:
    """Raise ``UsageError`` for a target that no addon is of."""
    if not needs_no_libc(target):
        raise UsageError(
            f"a bundle for {target.platform.os} by builder {target.builder} cannot be packed as an npm package",
            hint="bundles of web-wasm and web-fast can, and of linux-x86-fast and linux-arm64-fast",
        )
