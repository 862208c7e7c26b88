"""The bundles that are verified are those of the bundle's own tests."""

from tests.unit.bundles.conftest import assembled, bundle, model, runner, runtime, sound, source, target

__all__ = ["assembled", "bundle", "model", "runner", "runtime", "sound", "source", "target"]
