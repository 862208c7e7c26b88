"""The libembed of a finished bundle in other forms than its own: one that needs no C library, for a package."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from edgepack.api import BuildContext, Bundle, Platform, Target
from edgepack.api.axes import TarEntry
from edgepack.foundry.link.standalone import build_standalone
from edgepack.foundry.units import ProgramSources
from edgepack.runner.native.build import P256, license_of_p256
from edgepack.runner.native.sources import EXPORTS, library_sources, own_encoder
from edgepack_bindings.api import node_exports, node_sources
from edgepack_engine.builder import OUTPUTS, library_code

PROCESSORS = ("x86_64", "aarch64")
ADDON = "edgepack.node"


def needs_no_libc(target: Target) -> bool:
    """Whether a target's bundles have, or could have, a libembed that needs no C library."""
    platform = target.platform
    return target.builder == "engine" and platform.os == "linux" and platform.arch in PROCESSORS


def sources_of(bundle: Bundle) -> dict[str, str]:
    """Place → text of libembed for a bundle's model."""
    model = bundle.manifest["model"]
    encoder = own_encoder(library_code(bundle.directory / model["file"]), (), OUTPUTS)
    features = {name for name, said in (("scores", "head"), ("outputs", "outputs")) if model.get(said)}
    return library_sources(encoder, features)


def link(
    texts: Mapping[str, str],
    output: str,
    exports: tuple[str, ...] = (),
    *,
    platform: Platform,
    context: BuildContext,
) -> Path:
    """A folder of the store with ``output`` and ``licenses/``. Raises ``MissingToolError`` or ``ToolError``."""
    sources = ProgramSources(files=texts, output=output, exports=(*EXPORTS, *exports))
    return build_standalone(sources, platform=platform, any_libc=True, context=context)


def license_entries(bundle: Bundle, folder: Path, top: str, *, context: BuildContext) -> Iterator[TarEntry]:
    """Licences of what ``link`` has linked, but for texts that the bundle has already."""
    known = {file.read_bytes() for file in (bundle.directory / "LICENSES").iterdir() if file.is_file()}
    for text in (*sorted((folder / "licenses").iterdir()), license_of_p256(context.work_dir / P256)):
        if text.read_bytes() not in known:
            yield TarEntry(name=f"{top}/{text.name}", source=text)


def node_addon(bundle: Bundle, top: str, *, platform: Platform, context: BuildContext) -> Iterator[TarEntry]:
    """libembed that Node loads as an addon, and its licences, for a folder of an archive. Raises ``MissingToolError`` or ``ToolError``."""
    own = {f"libembed/beside/{name}": text for name, text in node_sources().items()}
    texts = {**sources_of(bundle), **own}
    folder = link(texts, ADDON, node_exports(), platform=platform, context=context)
    yield TarEntry(name=f"{top}/{ADDON}", source=folder / ADDON)
    yield from license_entries(bundle, folder, f"{top}/LICENSES", context=context)
