"""The hooks that a plugin may implement. Hooks register; the objects that they return act."""

from collections.abc import Iterable
from importlib.resources.abc import Traversable

import pluggy

from edgepack.plugins.spec import Spec
from edgepack.records.bundle import Bundle
from edgepack.records.report import Report

hookspec = pluggy.HookspecMarker("edgepack")
hookimpl = pluggy.HookimplMarker("edgepack")


class EdgepackSpecs:
    """Implement any of these as functions of a module named in the ``edgepack`` entry-point group."""

    @hookspec
    def edgepack_specs(self) -> Iterable[Spec]:  # type: ignore[empty-body]
        """Everything that this plugin brings, one spec each: builders, which make kinds of bundles.

        For example::

            @hookimpl
            def edgepack_specs():
                return [Spec(axis="builder", name="raspberry", summary="Raspberry Pi OS images", make=create)]
        """

    @hookspec
    def edgepack_targets(self) -> Iterable[Traversable]:  # type: ignore[empty-body]
        """TOML files, one a target, named ``TARGET.toml``.

        For example::

            @hookimpl
            def edgepack_targets():
                folder = importlib.resources.files("edgepack_raspberry")
                return [folder / "raspberry-pi-5.toml"]
        """

    @hookspec
    def edgepack_bundle_written(self, bundle: Bundle, report: Report) -> None:
        """A bundle was verified and is in its place: upload it, sign it, tell someone.

        For example::

            @hookimpl
            def edgepack_bundle_written(bundle, report):
                shutil.copy(bundle.archive, "/srv/releases")
        """
