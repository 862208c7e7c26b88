"""Finds plugins, targets and builders. One broken plugin is listed as broken and stops nobody else."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import pluggy

from edgepack import targets
from edgepack.context import Brought, BuildContext, Extension, perhaps_broken
from edgepack.errors import PluginError, TargetError
from edgepack.plugins import hookspecs
from edgepack.plugins.blame import blamed_on, in_words
from edgepack.plugins.builder import Builder, RegisteredBuilder
from edgepack.plugins.enabled import PROJECT_FILES, VARIABLE, rules
from edgepack.plugins.entry_points import OURS, Point, entry_points
from edgepack.plugins.process import hosted
from edgepack.plugins.returned import wrong_with
from edgepack.plugins.spec import INTERFACES, NAME, SCHEME, Spec
from edgepack.records.bundle import Bundle
from edgepack.records.report import Report
from edgepack.records.target import FORMATS, Target
from edgepack.terminal_text import did_you_mean

GROUP = "edgepack"
WRITTEN = "the bundle itself is written and verified; --debug shows where the plugin failed"


@dataclass(frozen=True, kw_only=True)
class PluginInfo:
    """A plugin that was found, and what became of it."""

    name: str
    package: str
    distribution: str
    version: str
    error: str = ""
    """Why it is broken; empty when it is not."""
    disabled: str = ""
    """Who ruled it out, so that it was not loaded; empty when nobody did."""
    ending: str = ""
    """What of it is written for an interface that a coming release does not speak, and which; empty when nothing is."""
    specs: tuple[Spec, ...] = ()
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Registered:
    """A spec, and the plugin that registered it."""

    spec: Spec
    plugin: PluginInfo

    def extension(self) -> Extension:
        """For the rooms that use it: what its ``make`` raises is the plugin's fault."""
        spec, plugin = self.spec, self.plugin

        def make(*arguments: Any) -> Any:
            with blamed_on(plugin.name, f"make of {spec.axis} {spec.name}"):
                return spec.make(*arguments)

        def max_tokens(config: Mapping[str, Any]) -> int | None:
            called = f"max_tokens of {spec.axis} {spec.name}"
            with blamed_on(plugin.name, called):
                found = spec.max_tokens(config)
            if found is not None and (type(found) is not int or found < 2):
                raise PluginError(
                    f"plugin {plugin.name}: {called} returned {found!r}, expected a whole number or None"
                )
            return found

        identity = f"{plugin.distribution} {plugin.version}, revision {spec.revision}"
        return Extension(
            name=spec.name,
            summary=spec.summary,
            plugin=plugin.name,
            identity="" if plugin.distribution == OURS else identity,
            package=plugin.package,
            make=make,
            max_tokens=max_tokens,
        )


@dataclass(frozen=True, kw_only=True)
class TargetFile:
    """A target that could be read, if its file is right."""

    name: str
    file: Traversable
    origin: str


@dataclass(frozen=True, kw_only=True)
class PluginHost:
    """Everything that plugins registered."""

    plugins: tuple[PluginInfo, ...]
    registered: Mapping[str, Mapping[str, Registered]]
    """By axis and name."""
    target_files: dict[str, TargetFile]
    _manager: pluggy.PluginManager = field(repr=False)

    @property
    def broken(self) -> list[PluginInfo]:
        """Those that could not be loaded."""
        return [plugin for plugin in self.plugins if plugin.error]

    @property
    def builders(self) -> dict[str, RegisteredBuilder]:
        """By the name that targets have for them."""
        found = {
            name: RegisteredBuilder(
                spec=each.spec,
                plugin=each.plugin.name,
                distribution=each.plugin.distribution,
                version=each.plugin.version,
                others=lambda: self.builders,
            )
            for name, each in self.registered["builder"].items()
        }
        return Brought(found, self._reasons())

    def extensions(self, axis: str) -> Mapping[str, Extension]:
        """Extensions of the plugins for an axis, by name, edgepack's own first."""
        found = {name: each.extension() for name, each in self.registered[axis].items()}
        return Brought(found, self._reasons())

    def _reasons(self) -> list[str]:
        """The broken plugins, each with why it is."""
        return [f"{plugin.name} ({plugin.error})" for plugin in self.broken]

    def target(self, name: str, overrides: Iterable[str] = ()) -> Target:
        """The target of that name, or of that ``.toml`` file; raises ``TargetError`` with the nearest name."""
        if name.endswith(".toml") or "/" in name:
            return targets.read_target(Path(name), origin=name, overrides=overrides)
        if name not in self.target_files:
            raise TargetError(
                f"there is no target {name or repr(name)}{did_you_mean(name, self.target_files)}",
                hint=f"targets: {', '.join(sorted(self.target_files))}; or the path of a .toml file"
                + perhaps_broken(self.builders),
            )
        found = self.target_files[name]
        return targets.read_target(found.file, origin=found.origin, overrides=overrides)

    def builder_of(self, target: Target) -> RegisteredBuilder:
        """The builder that a target names; raises ``PluginError`` when its plugin is broken or not there.

        Raises ``TargetError`` for a target that wants its model in a format which that builder does not know.
        """
        if found := self.builders.get(target.builder):
            formats = (*FORMATS, *found.spec.formats)
            if target.model.format not in formats:
                raise TargetError(
                    f"target {target.name}: [model] format is {target.model.format!r}"
                    + did_you_mean(target.model.format, formats),
                    hint=f"formats of builder {target.builder}: {', '.join(formats)}",
                )
            return found
        for plugin in self.broken:
            if plugin.name == target.builder or target.origin.startswith(plugin.name):
                raise PluginError(
                    f"target {target.name} needs plugin {plugin.name}, which is broken: {plugin.error}",
                    hint=f"reinstall or update {plugin.distribution}",
                )
        raise PluginError(
            f"target {target.name} names builder {target.builder}, which no plugin registers"
            + did_you_mean(target.builder, self.builders),
            hint="`edgepack plugins` lists what is installed" + perhaps_broken(self.builders),
        )

    def unread_tables(self, target: Target) -> list[str]:
        """The target's tables ``[x-NAME]`` that are for no plugin that is installed, nor for what one brings, each with the nearest."""
        known = {name for named in self.registered.values() for name in named}
        known |= {plugin.name for plugin in self.plugins}
        return [f"[x-{name}]{did_you_mean(name, known)}" for name in target.extra if name not in known]

    def create(self, target: Target, context: BuildContext) -> Builder:
        """The object that makes the target's bundle."""
        return self.builder_of(target).create(target, context)

    def told_when_written(self) -> Iterator[tuple[str, Callable[[Bundle, Report], None]]]:
        """Every plugin that wants to know of a bundle, and what tells it. A failure is that plugin's, the bundle stays."""
        for name, implementation in _implementations(self._manager, "edgepack_bundle_written"):
            yield name, partial(_tell, name, implementation)


def _tell(plugin: str, implementation: Callable[..., Any], bundle: Bundle, report: Report) -> None:
    with blamed_on(plugin, "edgepack_bundle_written", hint=WRITTEN, on_purpose=()):
        implementation(bundle=bundle.absolute(), report=report)


def plugins_of_process() -> PluginHost:
    """Those of the last time, as long as nothing that decides which are loaded has changed: who calls functions in a row waits once."""
    seen = (*sys.path, *(file for file, _ in PROJECT_FILES))
    return _loaded(
        os.environ.get(VARIABLE, ""), str(Path.cwd()), tuple((each, _changed(each)) for each in seen)
    )


@lru_cache(maxsize=1)
def _loaded(disabled: str, folder: str, seen: tuple[tuple[str, int], ...]) -> PluginHost:
    return load_plugins()


def _changed(place: str) -> int:
    """When a file, or the list of names in a folder, was written last."""
    try:
        return Path(place or ".").stat().st_mtime_ns
    except OSError:
        return 0


def load_plugins() -> PluginHost:
    """Discover the plugins of the ``edgepack`` entry-point group, in the order of their names."""
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs.EdgepackSpecs)
    registered: dict[str, dict[str, Registered]] = {axis: {} for axis in INTERFACES}
    target_files = {file.name: file for file in _as_target_files(targets.built_in_targets(), "edgepack")}
    plugins = []
    why_not = rules()
    for entry_point in entry_points(GROUP):
        info = PluginInfo(
            name=entry_point.name,
            package=entry_point.package,
            distribution=entry_point.distribution,
            version=entry_point.version,
        )
        if disabled := why_not(entry_point):
            plugins.append(replace(info, disabled=disabled))
        else:
            plugins.append(_load(manager, entry_point, info, registered, target_files))
    return PluginHost(
        plugins=tuple(plugins),
        registered=registered,
        target_files=target_files,
        _manager=manager,
    )


def _load(
    manager: pluggy.PluginManager,
    entry_point: Point,
    info: PluginInfo,
    registered: dict[str, dict[str, Registered]],
    target_files: dict[str, TargetFile],
) -> PluginInfo:
    try:
        with hosted(info.name):
            with _failing("when it was imported"):
                module = entry_point.load()
            manager.register(module, name=info.name)
            manager.check_pending()  # a misspelt hook would otherwise pass in silence
            specs = [_checked(spec) for spec in _results(manager, info.name, "edgepack_specs", Spec)]
            files = _as_target_files(_results(manager, info.name, "edgepack_targets", Traversable), info.name)
        names = tuple(file.name for file in files)
        info = replace(info, specs=tuple(specs), targets=names, ending=_ending(specs))
        own_targets = {file.name: file for file in files}
        own: dict[str, dict[str, Registered]] = {}
        for spec in specs:
            _refuse_duplicates(spec.axis, [spec.name], own.get(spec.axis, ()))
            own.setdefault(spec.axis, {})[spec.name] = Registered(spec=spec, plugin=info)
        for axis, named in own.items():
            _refuse_duplicates(axis, named, registered[axis])
        _refuse_duplicates("target", own_targets, target_files)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin can fail in any way, and must not take the others with it
        if manager.has_plugin(info.name):
            manager.unregister(name=info.name)
        return replace(info, error=in_words(error), specs=(), targets=(), ending="")
    for axis, named in own.items():
        registered[axis].update(named)
    target_files.update(own_targets)
    return info


@contextmanager
def _failing(where: str) -> Iterator[None]:
    """Say where a plugin failed, for who meets the reason far from there."""
    try:
        yield
    except (KeyboardInterrupt, PluginError):
        raise
    except BaseException as error:
        raise PluginError(f"{in_words(error)}, {where}") from error


def _implementations(
    manager: pluggy.PluginManager, hook: str, plugin: str | None = None
) -> Iterator[tuple[str, Callable[..., Any]]]:
    for implementation in getattr(manager.hook, hook).get_hookimpls():
        if plugin in (None, implementation.plugin_name):
            yield implementation.plugin_name, _call(implementation)


def _call(implementation: pluggy.HookImpl) -> Callable[..., Any]:
    """A hook implementation takes only the arguments that it names."""
    return lambda **arguments: implementation.function(*(arguments[name] for name in implementation.argnames))


def _results(manager: pluggy.PluginManager, plugin: str, hook: str, kind: Any) -> list[Any]:
    """Results of a plugin's hook. Raises ``PluginError`` for what is no list of such things."""
    found = []
    for _, call in _implementations(manager, hook, plugin):
        with _failing(f"in {hook}"):
            answer = call()
            if isinstance(answer, str) or not isinstance(answer, Iterable):
                raise PluginError(f"{hook} returned {repr(answer)[:80]}, expected a list")
            listed = list(answer)
        if wrong := [each for each in listed if not isinstance(each, kind)]:
            raise PluginError(f"{hook} listed {repr(wrong[0])[:80]}, expected {kind.__name__} objects")
        found += listed
    return found


def _as_target_files(found: Iterable[Traversable], origin: str) -> list[TargetFile]:
    return [TargetFile(name=file.name.removesuffix(".toml"), file=file, origin=origin) for file in found]


def _checked(spec: Spec) -> Spec:
    if wrong := wrong_with(spec):
        raise PluginError(f"spec {repr(spec.name)[:80]}: {wrong}")
    if spec.axis not in INTERFACES:
        raise PluginError(f"{spec.name} is a {spec.axis!r}; plugins bring: {', '.join(INTERFACES)}")
    known = INTERFACES[spec.axis]
    if not known.oldest <= spec.api <= known.newest:
        both = str(known.newest) if known.oldest == known.newest else f"{known.oldest} and {known.newest}"
        raise PluginError(
            f"{spec.axis} {spec.name} is written for plugin interface {spec.api}; this edgepack speaks {both}"
        )
    if spec.axis == "source" and not SCHEME.fullmatch(spec.name):
        raise PluginError(
            f"{spec.name!r} is no scheme that a source can have, e.g. 's3' for s3://BUCKET/NAME"
        )
    if not NAME.fullmatch(spec.name):
        raise PluginError(f"{spec.name[:80]!r} is no name: letters, digits and . _ + - make one")
    return spec


def _ending(specs: Iterable[Spec]) -> str:
    """Which axes a plugin brings by an interface that ends, and when; or nothing."""
    old = {spec.axis: spec.api for spec in specs if spec.api < INTERFACES[spec.axis].newest}
    return "; ".join(
        f"written for interface {api} of axis {axis}, edgepack {INTERFACES[axis].ends} ends it"
        for axis, api in old.items()
    )


def _refuse_duplicates(what: str, own: Iterable[str], known: Iterable[str]) -> None:
    if taken := sorted(set(own) & set(known)):
        raise PluginError(f"{what} {', '.join(taken)} is registered already")
