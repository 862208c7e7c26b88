"""What is to be built, checked before anything is made for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack.building.outcome import files_beside, require_no_other
from edgepack.bundles.disk_space import require_room
from edgepack.bundles.manifest import bundle_name
from edgepack.bundles.packages import Packagers, packagers_of
from edgepack.bundles.place import require_free, require_writable
from edgepack.errors import (
    MissingToolError,
    ModelError,
    TargetError,
    UsageError,
    VerificationError,
)
from edgepack.files.store import sha256_of
from edgepack.models.find.source import ingest, name_of
from edgepack.models.inspection import TABLE_TARGETS
from edgepack.models.read.static import is_static_source
from edgepack.plugins.builder import Builder, RegisteredBuilder
from edgepack.plugins.context import HostContext
from edgepack.recipes.expected import Expected
from edgepack.recipes.prepare import corpora_of
from edgepack.recipes.registry import passes_of
from edgepack.records.model import ModelSource
from edgepack.records.target import Pass, Target
from edgepack.reports.cost import Prices, prices_of
from edgepack.signing.keys import PrivateKey, load_public
from edgepack.suitability.decide import require_suitable
from edgepack.tools import install_hint
from edgepack.verifier.confined.module_process import text_module

FETCHED = {
    "addresses",
    "downloads",
    "from-store",
    "hub",
    "made-here",
    "models",
    "project-builds",
    "sources",
    "wheels",
}
"""Kinds of what a cache may hold and nothing was made with tools yet."""
COMPILED = 500_000_000
"""Bytes that the first build adds to a cache beside the model: ONNX Runtime's sources and what is compiled of them."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """Order for a build: the target, the model, the output folder, and how the bundle is made."""

    target: Target
    model: str | None
    output: Path
    force: bool
    """Whether a bundle that lies there is replaced."""
    bench: bool
    """Whether the bundle's speed is measured on this machine."""
    key: PrivateKey | None
    prices: Prices
    packagers: Packagers
    registered: RegisteredBuilder
    builder: Builder
    files: Mapping[Path, str]
    """Files of the user's that decide what is made beside the model, with their digests."""
    context: HostContext

    def destination(self, name: str) -> Path:
        """The bundle's folder, of a model of this name. Raises ``ModelError`` for no name, ``OutputError`` for a place that is taken."""
        if not name.isprintable():
            raise ModelError(f"the model is called {name!r}, which cannot be shown", hint="rename its folder")
        folder = self.output / bundle_name(name, self.target.name)
        require_free(folder, force=self.force)
        require_no_other(files_beside(folder), force=self.force)
        return folder


def place_order(
    target: Target,
    *,
    model: str | None,
    output: Path,
    force: bool,
    bench: bool,
    prices: Path | None,
    key: PrivateKey | None,
    context: HostContext,
) -> Order:
    """The order, of which everything was checked that needs no model: nothing is fetched for one that cannot be carried out."""
    host = context.plugins()
    for unread in host.unread_tables(target):
        context.warn(f"target {target.name}: {unread} belongs to no installed plugin")
    _require_key(target, key)
    packagers, table, registered = (
        packagers_of(target, context),
        prices_of(prices, context),
        host.builder_of(target),
    )
    builder = registered.create(target, context)
    passes = [
        step
        for options in (target.model, target.model.for_scores())
        for step in passes_of(options.recipe, context)
    ]
    order = Order(
        target=target,
        model=model,
        output=output,
        force=force,
        bench=bench,
        key=key,
        prices=table,
        packagers=packagers,
        registered=registered,
        builder=builder,
        files=_files_of(target, passes),
        context=context,
    )
    _require_module(target, context)
    _require_tools(registered.missing(target), context)
    require_writable(output)
    if (name := name_of(model)) is not None:
        order.destination(name)
    require_room(output=output, cache=context.store.root)
    return order


def _files_of(target: Target, passes: Sequence[Pass]) -> dict[Path, str]:
    named = (target.module, target.model.calibration, *map(Path, corpora_of(tuple(passes))))
    return {path: sha256_of(path) for path in named if path is not None and path.is_file()}


def find_model(order: Order) -> ModelSource:
    """The model as the target can give it. Raises what the target refuses it with, and ``DiskFullError`` for what does not fit on the disk."""
    target, context = order.target, order.context
    source = ingest(order.model, reading=target.model.reading, context=context)
    suited = require_suitable(source, target, order.builder, context=context)
    source = suited.source
    _require_room(suited.expected, order)
    if is_static_source(source) and target.model.format != "table":
        context.warn(
            f"{source.name} is a static model: --target {' or '.join(TABLE_TARGETS)} ships its table without ONNX Runtime; "
            "`edgepack inspect` has all targets that do"
        )
    return source


def _require_tools(tools: Sequence[str], context: HostContext) -> None:
    """Raise ``MissingToolError`` where nothing can be made without them; where all of it may be in the cache, only warn."""
    if not tools:
        return
    missing, hint = f"not installed: {', '.join(tools)}", "; ".join(dict.fromkeys(map(install_hint, tools)))
    if not set(context.store.kinds()) - FETCHED:
        raise MissingToolError(missing, hint=hint)
    context.warn(f"{missing}; without them, only what is in the cache can be used ({hint})")


def _require_module(target: Target, context: HostContext) -> None:
    """Raise ``TargetError`` for a module that cannot be loaded, before anything is made for it."""
    if target.module is None:
        return
    if not target.module.is_file():
        raise TargetError(f"target {target.name}: runner.module: there is no file {target.module}")
    try:
        text_module(target.module, context=context)
    except VerificationError as error:
        raise TargetError(f"target {target.name}: runner.module: {error.message}", hint=error.hint) from error


def _require_room(foretold: Expected | None, order: Order) -> None:
    """Raise ``DiskFullError`` for what certainly does not fit: all but the folder and its archives may be in the cache."""
    if foretold is None:
        return
    store = order.context.store
    first = not set(store.kinds()) - FETCHED
    require_room(
        output=order.output,
        cache=store.root,
        made=foretold.made,
        archives=foretold.least * (1 + len(order.packagers)),
        cached=COMPILED + foretold.full + foretold.made if first else 0,
    )


def _require_key(target: Target, key: PrivateKey | None) -> None:
    """A program that refuses unsigned bundles cannot be verified without a signature. Raises ``UsageError``."""
    wanted = target.options.get("require_signature")
    if wanted and (key is None or key.public != load_public(Path(str(wanted)))):
        raise UsageError(
            f"target {target.name}: require_signature = {str(wanted)!r}: its program refuses bundles that are not signed with that key",
            hint="--sign names the private key that belongs to it",
        )
