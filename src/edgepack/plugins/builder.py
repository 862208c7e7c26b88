"""A plugin's builder as the host calls it: what goes wrong in it is that plugin's, by name, and what it returns is checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from edgepack.context import BuildContext
from edgepack.errors import BundleError, ModelError, PluginError, ProofError, VerificationError
from edgepack.options import OptionTable, defaults_of
from edgepack.plugins.blame import blamed_on, within
from edgepack.plugins.entry_points import OURS
from edgepack.plugins.returned import checked, require_files, require_runner
from edgepack.plugins.spec import Spec, TargetBuilder
from edgepack.records.bundle import RunnerArtifact
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.runtime import RuntimeArtifact
from edgepack.records.target import Target

Made = TypeVar("Made")


@dataclass(frozen=True, kw_only=True)
class PendingBuilders:
    """Which builders there are, and which of them were asked for something that is not answered yet, the first first."""

    builders: Callable[[], Mapping[str, RegisteredBuilder]]
    delegates: dict[str, RegisteredBuilder]
    """Of the first: who else is made a builder of, filled as that happens."""
    names: tuple[str, ...] = ()


PENDING: ContextVar[PendingBuilders] = ContextVar("PENDING")
"""Set while a builder's plugin is called, for ``builder_of``."""


@dataclass(frozen=True, kw_only=True)
class RegisteredBuilder:
    """A builder's spec, and the plugin that registered it."""

    spec: Spec
    plugin: str
    distribution: str
    version: str
    others: Callable[[], Mapping[str, RegisteredBuilder]]
    """All that are registered, by name."""
    delegates: dict[str, RegisteredBuilder] = field(default_factory=dict, compare=False, repr=False)
    """Whom this one has made parts by, and whom those have, by name."""

    @contextmanager
    def asked(self, called: str) -> Iterator[None]:
        """Around each call: what it raises is the plugin's fault. Raises ``PluginError`` for builders that ask in a circle."""
        before = PENDING.get(None) or PendingBuilders(builders=self.others, delegates=self.delegates)
        names = (*before.names, self.spec.name)
        if self.spec.name in before.names:
            raise PluginError(
                f"plugin {self.plugin}: builders delegate in a circle: {' → '.join(names)}",
                hint="a builder may delegate to others, not to one that delegates to it",
            )
        token = PENDING.set(replace(before, names=names))
        try:
            with blamed_on(self.plugin, called):
                yield
        finally:
            PENDING.reset(token)

    def create(self, target: Target, context: BuildContext) -> Builder:
        """The object that makes the target's bundle; raises ``PluginError`` for one that cannot."""
        with self.asked("make"):
            if len(PENDING.get().names) > 1:
                PENDING.get().delegates[self.spec.name] = self
            made = self.spec.make(target, context)
        with blamed_on(self.plugin, "make"):
            lacking = [name for name in STEPS if not callable(getattr(made, name, None))]
        if lacking:
            raise PluginError(
                f"plugin {self.plugin}: what builder {self.spec.name} makes has no {', '.join(lacking)}",
                hint="a builder has the methods of edgepack.api.TargetBuilder",
            )
        working = (context.work_dir, context.store.root)
        return Builder(plugin=self.plugin, builder=made, asked=self.asked, working=working)

    def options(self) -> OptionTable:
        """The builder's own options. Raises ``PluginError`` for one that has the name of a flag of every builder."""
        called = f"options of builder {self.spec.name}"
        with self.asked(called):
            known = self.spec.options()
        if not isinstance(known, Mapping):
            raise PluginError(
                f"plugin {self.plugin}: {called} returned {repr(known)[:80]}, expected a mapping"
            )
        for name, default in known.items():
            if not (isinstance(name, str) and re.fullmatch(r"[a-z][a-z0-9_]*", name)):
                raise PluginError(
                    f"plugin {self.plugin}: {called}: {name!r} is no name of an option, e.g. some_folder"
                )
            if not _is_plain(default) or default == ():
                raise PluginError(
                    f"plugin {self.plugin}: {called}: {name} is {repr(default)[:80]}, expected what a target file can say: a string, "
                    "a number, true or false, a list, a tuple of choices, or None"
                )
        if taken := sorted(RESERVED & set(known)):
            raise PluginError(
                f"plugin {self.plugin}: {called}: {', '.join(taken)} cannot be a builder's, for `edgepack bundle` has a "
                f"flag --{taken[0].replace('_', '-')}",
                hint="the plugin must give it another name",
            )
        return known

    def missing(self, target: Target) -> tuple[str, ...]:
        """Names of tools that a build would miss on this host."""
        called = f"missing of builder {self.spec.name}"
        with self.asked(called):
            found = within(SECONDS, self.plugin, called, lambda: tuple(self.spec.missing(target)))
        if wrong := [name for name in found if not isinstance(name, str)]:
            raise PluginError(f"plugin {self.plugin}: {called} yielded {wrong[0]!r}, expected names of tools")
        return found

    def fetch(self, target: Target, context: BuildContext) -> None:
        """Put into the store what a build needs beside the model."""
        with self.asked("fetch"):
            self.spec.fetch(target, context)

    @contextmanager
    def to_blame_for_its_parts(self, made: str = "no model") -> Iterator[None]:
        """Whatever is wrong with a prepared model, or with parts that make no bundle, is the fault of who made them."""
        try:
            yield
        except ModelError as error:
            raise PluginError(f"plugin {self.plugin}: prepare_model made {made}: {error.message}") from error
        except BundleError as error:
            raise PluginError(f"plugin {self.plugin}: {error.message}", hint=error.hint) from error

    @contextmanager
    def named(self) -> Iterator[None]:
        """Whatever is found of the program that a plugin made says whose it is; edgepack's own needs no name."""
        try:
            yield
        except (ProofError, VerificationError) as error:
            if self.distribution == OURS:
                raise
            raise type(error)(f"{error.message} (made by plugin {self.plugin})", hint=error.hint) from error

    def made_by(self, target: Target) -> Mapping[str, Any]:
        """For the manifest: whose code made a bundle, and with which options, defaults among them.

        Folders of the building machine are left out. Delegates are those of the parts that were made.
        """
        resolved = {**defaults_of(self.options()), **target.options}
        options = {name: value for name, value in sorted(resolved.items()) if not _names_a_place(value)}
        delegates = [
            {"builder": name, "plugin": each.distribution, "version": each.version}
            for name, each in self.delegates.items()
        ]
        made_by = {"plugin": self.distribution, "version": self.version, "options": options}
        return {**made_by, "delegates": delegates} if delegates else made_by


SECONDS = 10.0
"""How long a plugin may take to say what is missing."""
RESERVED = frozenset(
    [
        "target",
        "model",
        "recipe",
        "gate",
        "pooling",
        "normalize",
        "no_normalize",
        "prompt",
        "treat_as_embedding",
        "route",
        "set",
        "sign",
        "output",
        "as",
        "bench",
        "budget",
        "check_reproducible",
        "force",
        "prices",
        "offline",
        "json",
        "debug",
        "help",
    ]
)
"""Flags of `edgepack bundle` and `edgepack fetch`, which take a builder's options as flags, too."""
STEPS = ("prepare_model", "provide_runtime", "make_runner")


@dataclass(frozen=True, kw_only=True)
class Builder:
    """One method a step, as ``TargetBuilder``."""

    plugin: str
    builder: TargetBuilder
    asked: Callable[[str], AbstractContextManager[None]]
    working: tuple[Path, ...]
    """Folders that the host works in, which nothing that ships may hold."""

    @property
    def outputs(self) -> Collection[str] | None:
        """Outputs of its programs beside vectors; ``None``: it does not say. Raises ``PluginError``."""
        with self.asked("outputs"):
            # As builders written before called it; edgepack 0.3 ends it.
            said = getattr(self.builder, "outputs", getattr(self.builder, "gives", None))
        if said is not None and not (isinstance(said, tuple) and all(isinstance(name, str) for name in said)):
            raise PluginError(
                f"plugin {self.plugin}: outputs is {repr(said)[:80]}, expected a tuple of words"
            )
        return said

    def require_model(self, source: ModelSource) -> None:
        """Raise what the builder refuses of a model before it makes anything of it; one that has no such method refuses later."""
        if (said := getattr(self.builder, "require_model", None)) is not None:
            with self.asked("require_model"):
                said(source)

    def prepare_model(self, source: ModelSource) -> PreparedModel:
        made = self._call("prepare_model", PreparedModel, self.builder.prepare_model, source)
        self._require_files("prepare_model", made.file, made.cpu_file, made.oracle, *made.companions)
        return made

    def provide_runtime(self, model: PreparedModel) -> RuntimeArtifact | None:
        made = self._call("provide_runtime", RuntimeArtifact | None, self.builder.provide_runtime, model)
        if made is not None:
            self._require_files("provide_runtime", made.library, *made.companions, *made.licenses)
        return made

    def make_runner(self, model: PreparedModel, runtime: RuntimeArtifact | None) -> RunnerArtifact:
        made = self._call("make_runner", RunnerArtifact, self.builder.make_runner, model, runtime)
        require_runner(self.plugin, made, working=self.working)
        self._require_files("make_runner", made.tokenizer, *made.licenses)
        return made

    def _call(self, step: str, kind: Any, method: Callable[..., Made], *arguments: object) -> Made:
        with self.asked(step):
            made = method(*arguments)
        return checked(self.plugin, step, made, kind)

    def _require_files(self, step: str, *files: Path | None) -> None:
        require_files(self.plugin, step, files)


def _is_plain(value: object) -> bool:
    """Whether TOML and JSON can say it; a path is left out of what is said."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str) or isinstance(value, Path)


def _names_a_place(value: object) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_names_a_place, value))
    return isinstance(value, Path) or (isinstance(value, str) and "/" in value)
