"""What checks look at: a plugin as it is installed, its targets, and bundles of the kit's model, each built once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from edgepack.testing.check import NotSeen
from edgepack.testing.model import write_model, write_static_model

if TYPE_CHECKING:
    from edgepack.plugins.context import HostContext
    from edgepack.plugins.host import PluginHost, PluginInfo
    from edgepack.records.model import ModelSource
    from edgepack.records.target import Target
    from edgepack.testing.built import Built

UNLIMITED = ("min_agreement", "min_top10", "min_p1_cosine", "min_worst_cosine", "min_processor_cosine")
"""Limits of quality that say something of a real model only."""


@dataclass(frozen=True, kw_only=True)
class Kit:
    """A session of the kit. ``folder`` is its own; the cache is the user's."""

    folder: Path
    fetch: bool = False
    """Whether what targets need may be fetched first, as ``edgepack fetch`` does."""
    targets: tuple[str, ...] = ()
    """Those that are checked: their bundles are what packages are made of."""
    models: tuple[str, ...] = ()
    """Addresses and folders of models that the sources and architectures of plugins are tried on, folders that targets are, too."""
    _open: ExitStack = field(default_factory=ExitStack, repr=False)

    def close(self) -> None:
        """Remove the work folders of what was built in this process."""
        self._open.close()

    @cached_property
    def model(self) -> Path:
        """The kit's transformer."""
        return write_model(self.folder / "models" / "kit-model")

    @cached_property
    def static_model(self) -> Path:
        """The kit's static table."""
        return write_static_model(self.folder / "models" / "kit-static")

    def models_for_targets(self) -> Iterator[Path]:
        """Models to check a target with: the first of these whose kind its builder does not refuse."""
        yield from (Path(each) for each in self.models if Path(each).is_dir())
        yield self.model
        yield self.static_model

    @cached_property
    def host(self) -> PluginHost:
        from edgepack.plugins.host import load_plugins

        return load_plugins()

    @cached_property
    def source(self) -> ModelSource:
        """The kit's transformer, as builders get it."""
        return self.read(self.model)

    def read(self, folder: Path) -> ModelSource:
        """A model as builders get it."""
        from edgepack.models.find.source import read_model

        return read_model(folder, context=self.context())

    def context(self, store: Path | None = None, *, offline: bool = True) -> HostContext:
        """A context for a build in this process, which lasts as long as the kit."""
        from edgepack.console import Story
        from edgepack.files.store import Store
        from edgepack.plugins.context import host_context

        made = host_context(
            story=Story(quiet=True),
            offline=offline,
            store=Store(root=store) if store else None,
            host=self.host,
        )
        return self._open.enter_context(made)

    def edgepack(
        self, *words: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """The command in a process of its own, on the user's cache."""
        command = [sys.executable, "-m", "edgepack", *map(str, words)]
        return subprocess.run(
            command, capture_output=True, encoding="utf-8", env=self.environment(env), cwd=cwd, check=False
        )

    def environment(self, changes: dict[str, str] | None = None) -> dict[str, str]:
        """This process's, in which another one finds the same plugins and the same cache wherever its home is."""
        from edgepack.files.store import default_root

        paths = [path for path in sys.path if path and Path(path).is_dir()]
        found = {"PYTHONPATH": os.pathsep.join(paths), "EDGEPACK_CACHE": str(default_root())}
        return {**os.environ, **found, **(changes or {})}


@dataclass(frozen=True)
class PluginSubject:
    """A plugin, by its name in the entry-point group ``edgepack``."""

    kit: Kit
    name: str

    @property
    def label(self) -> str:
        return self.name

    @property
    def info(self) -> PluginInfo:
        """Record of the plugin at the host. ``NotSeen`` where there is no such plugin."""
        known = {each.name: each for each in self.kit.host.plugins}
        if self.name not in known:
            raise NotSeen(f"there is no plugin {self.name}; installed: {', '.join(known)}")
        return known[self.name]

    @property
    def loaded(self) -> PluginInfo:
        if self.info.error:
            raise NotSeen(f"the plugin does not load ({self.info.error})")
        return self.info

    @property
    def folder(self) -> Path:
        """The plugin's package."""
        from importlib.util import find_spec

        spec = find_spec(self.info.package)
        if spec is None or spec.origin is None:
            raise NotSeen(f"its package {self.info.package} has no folder")
        return Path(spec.origin).parent

    @property
    def requires(self) -> list[str] | None:
        """Requirements of its distribution; ``None`` where it has no metadata."""
        try:
            return list(distribution(self.info.distribution).requires or [])
        except PackageNotFoundError:
            return None


@dataclass(frozen=True)
class TargetSubject:
    """A target, and the bundle that it makes of a model."""

    kit: Kit
    name: str

    @property
    def label(self) -> str:
        return self.name

    @cached_property
    def plugin(self) -> PluginSubject:
        """Who brings its builder."""
        return PluginSubject(self.kit, self.kit.host.builder_of(self.target).plugin)

    @cached_property
    def target(self) -> Target:
        """Target as it is, but for limits that only mean something for a real model. Raises what the host does."""
        return self.kit.host.target(self.name, self.overrides)

    @property
    def overrides(self) -> tuple[str, ...]:
        return tuple(f"model.{limit}=0" for limit in UNLIMITED)

    @cached_property
    def built(self) -> Built:
        """Built once in a process of its own, as a user would. ``NotSeen`` when that failed: the check `builds` says how."""
        from edgepack.testing.built import build_in_own_process

        found = build_in_own_process(self)
        if found.failed:
            raise NotSeen("no bundle was built: see the check `builds`")
        return found

    @property
    def model(self) -> Path:
        """The folder of the model that it is checked with."""
        return self.built.model

    @cached_property
    def source(self) -> ModelSource:
        """That model, as its builder gets it."""
        return self.kit.read(self.model)
