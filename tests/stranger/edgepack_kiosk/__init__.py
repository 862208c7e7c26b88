from dataclasses import dataclass
from importlib.abc import Traversable
from importlib.resources import files

from edgepack import api


@dataclass(frozen=True)
class KioskBuilder:
    target: api.Target
    context: api.BuildContext

    def prepare_model(self, source: api.ModelSource) -> api.PreparedModel:
        return api.prepare_model(source, options=self.target.model, context=self.context)

    def provide_runtime(self, model: api.PreparedModel) -> api.RuntimeArtifact:
        return api.reduce_runtime(model.needs, platform=self.target.platform, context=self.context)

    def make_runner(
        self, model: api.PreparedModel, runtime: api.RuntimeArtifact | None
    ) -> api.RunnerArtifact:
        return api.freeze_runner(context=self.context)


@api.hookimpl
def edgepack_specs() -> list[api.Spec]:
    return [api.Spec(axis="builder", name="kiosk", summary="bundles for our kiosks", make=KioskBuilder)]


@api.hookimpl
def edgepack_targets() -> list[Traversable]:
    return [files("edgepack_kiosk") / "kiosk.toml"]
