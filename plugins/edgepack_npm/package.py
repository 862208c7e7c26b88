"""An npm package of a bundle (https://docs.npmjs.com/cli/configuring-npm/package-json).

The bundle's folder lies in ``package/bundle``, as it is; beside it the modules that are imported by the package's name.
Bundles for browsers are WebAssembly; of those for Linux with the engine it is an addon.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from edgepack.api import BuildContext, Bundle, Target, UsageError
from edgepack.bundles.packages import name_of_model, require_version, text_of_form
from edgepack_npm.native import NativePackage, require_native
from edgepack_npm.templates import ENGINES, INDEX, described, filled, write_package
from edgepack_npm.workerd import WORKERD, runs_in_workerd, workerd_entries

VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
NAME = re.compile(r"(?!.{215})(@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*")
"""As npm takes them for new packages; 214 characters at most."""
MODULE = "embed.mjs"
README = """# {name}

{model} and what runs it, made by edgepack: text embeddings in Node, Bun, Deno and workerd, with no other package.

```js
import {{ close, encode }} from "{name}";

const vector = await encode("A man is eating food."); // Float32Array of {dimension} numbers
const vectors = await encode(["one text", "another"]);
await close(); // Deno would wait
```
"""


@dataclass(frozen=True, kw_only=True)
class NpmPackage:
    """The packager (``edgepack.api.axes.Packager``)."""

    version: str
    name: str = ""
    """Of the package; empty: as its model is called."""

    def file_name(self, bundle: Bundle) -> str:
        """Name as npm itself gives tarballs, e.g. ``all-minilm-l6-v2-1.0.0.tgz``."""
        return f"{self._name(bundle).lstrip('@').replace('/', '-')}-{self.version}.tgz"

    def pack(self, bundle: Bundle, destination: Path, *, context: BuildContext) -> None:
        """Write the package; the same bundle and version give the same bytes. Raises ``UsageError``."""
        listed = {str(file["path"]): file["mode"] for file in bundle.manifest["files"]}
        if MODULE not in listed or "link" in listed.values():
            raise UsageError(f"an npm package requires a bundle with {MODULE} and without symbolic links")
        name, model = self._name(bundle), bundle.manifest["model"]
        workerd = {"workerd": WORKERD} if runs_in_workerd(bundle) else {}
        document = described(
            bundle,
            name=name,
            version=self.version,
            how="in WebAssembly",
            exports={".": {**workerd, **INDEX}, "./bundle/*": "./bundle/*"},
            engines=ENGINES,
            sideEffects=False,
        )
        texts = {
            "README.md": README.format(name=name, model=model["name"], dimension=model["dimension"]),
            **{module: filled(module, name=name) for module in ("index.mjs", "index.d.mts")},
        }
        write_package(bundle, destination, document, texts, workerd_entries(bundle))

    def _name(self, bundle: Bundle) -> str:
        return self.name or name_of_model(bundle)


def create_packager(target: Target) -> NpmPackage | NativePackage:
    """Raises ``UsageError`` for a platform, version or name that no npm package is of."""
    native = target.platform.os != "web"
    if native:
        require_native(target)
    if target.builder == "web" and target.options.get("copies", True):
        raise UsageError("an npm package must not contain compressed copies", hint="--set copies=false")
    require_version(target, VERSION, "an npm package")
    hint = 'name, the package\'s, e.g. name = "@acme/embeddings"'
    name = text_of_form(target, "npm", "name", NAME, hint=hint)
    if native:
        return NativePackage(version=target.version, name=name, platform=target.platform)
    return NpmPackage(version=target.version, name=name)
