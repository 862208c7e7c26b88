from collections.abc import Sequence
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

    def freeze_runner(self, model: api.PreparedModel, runtime: api.RuntimeArtifact) -> api.RunnerArtifact:
        return api.freeze_runner(context=self.context)

    def embed(self, bundle: api.Bundle, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return api.embed_with_program(bundle, texts, context=self.context)


@api.hookimpl
def edgepack_builders() -> list[api.BuilderSpec]:
    return [api.BuilderSpec(name="kiosk", summary="bundles for our kiosks", create=KioskBuilder)]


@api.hookimpl
def edgepack_targets() -> list[Traversable]:
    return [files("edgepack_kiosk") / "kiosk.toml"]
