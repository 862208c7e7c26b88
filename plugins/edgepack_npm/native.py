"""The npm package of a bundle for Linux: an addon that is libembed itself, for Node, and the bundle beside it."""

from dataclasses import dataclass
from pathlib import Path

from edgepack.api import BuildContext, Bundle, Platform, Target, UsageError
from edgepack.bundles.packages import name_of_model
from edgepack_bindings.api import node_modules
from edgepack_engine.api import needs_no_libc, node_addon
from edgepack_npm.templates import ENGINES, INDEX, described, write_package

CPUS = {"x86_64": "x64", "aarch64": "arm64"}
"""Names of processors as Node has them."""
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
        name, model = self.name or name_of_model(bundle), bundle.manifest["model"]
        cpu = CPUS[self.platform.arch]
        document = described(
            bundle,
            name=name,
            version=self.version,
            how="native",
            exports={".": INDEX},
            os=["linux"],
            cpu=[cpu],
            engines=ENGINES,
        )
        text = README.format(name=name, model=model["name"], dimension=model["dimension"], cpu=cpu)
        write_package(bundle, destination, document, {"README.md": text, **node_modules()}, addon)


def require_native(target: Target) -> None:
    """Raise ``UsageError`` for a target that no addon is of."""
    if not needs_no_libc(target):
        raise UsageError(
            f"a bundle for {target.platform.os} by builder {target.builder} cannot be packed as an npm package",
            hint="bundles of web-wasm and web-fast can, and of linux-x86-fast and linux-arm64-fast",
        )
