"""The kit's checks as pytest's tests: one item a check and subject, failures in plain words."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from edgepack.errors import EdgepackError
from edgepack.testing.check import XFAIL, Broken, KitCheck, NotSeen
from edgepack.testing.kit import Kit, PluginSubject, TargetSubject
from edgepack.testing.suite import PLUGIN_CHECKS, TARGET_CHECKS, checks_of_specs

PREFIX = "edgepack"
MODEL = "edgepack_model"
"""The option and setting, and what a report says of the model that a target was checked with."""
Subject = Any


class CheckItem(pytest.Item):
    check: KitCheck
    subject: Subject

    def runtest(self) -> None:
        try:
            self.check.run(self.subject)
        except NotSeen as reason:
            pytest.skip(f"not checked: {reason}")
        finally:
            if "built" in vars(self.subject):
                self.user_properties.append((MODEL, f"{self.subject.name} with {self.subject.model.name}"))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        error = excinfo.value
        where = f"{self.check.section}, https://github.com/edgepack/edgepack"
        if isinstance(error, Broken):
            return f"rule:  {self.check.rule}\nseen:  {error.seen}\ndo:    {error.do}\nsee:   {where}"
        if isinstance(error, EdgepackError):
            hint = f"\nhint:  {error.hint}" if error.hint else ""
            return f"rule:  {self.check.rule}\nseen:  {error.message}{hint}\nsee:   {where}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name


class Checks(pytest.Collector):
    """Holds the session of the kit. It has no file, and collects nothing by itself."""

    def collect(self) -> list[pytest.Item]:
        return []

    @cached_property
    def kit(self) -> Kit:
        factory: pytest.TempPathFactory = self.config._tmp_path_factory  # type: ignore[attr-defined]
        kit = Kit(
            folder=factory.mktemp("edgepack-kit"),
            fetch=bool(self.config.getoption("edgepack_fetch")),
            targets=tuple(self.config.getoption("edgepack_target")),
            models=tuple(_models(self.config)),
        )
        self.config.add_cleanup(kit.close)
        return kit


def _models(config: pytest.Config) -> Iterator[str]:
    """Addresses as they are, folders absolute: of the command line from where it was given, of the settings from their own folder."""
    given = [(each, config.invocation_params.dir) for each in config.getoption(MODEL)]
    for model, root in [*given, *((each, config.rootpath) for each in config.getini(MODEL))]:
        folder = (root / model).resolve()
        if not folder.is_dir() and ":" not in model:
            raise pytest.UsageError(
                f"--edgepack-model {model}: there is no such folder, and it is no address"
            )
        yield str(folder) if folder.is_dir() else model


def collect(session: pytest.Session, *, targets: Iterable[str], plugins: Iterable[str]) -> list[pytest.Item]:
    """The checks of these targets and of the plugins that make them; of these plugins and of all that they bring."""
    parent = Checks.from_parent(session, name=PREFIX, path=session.config.rootpath, nodeid=PREFIX)
    subjects: dict[tuple[str, str], tuple[Subject, Sequence[KitCheck]]] = {}
    for name in dict.fromkeys(plugins):
        plugin = PluginSubject(parent.kit, name)
        try:
            info = plugin.info
        except NotSeen as error:
            raise pytest.UsageError(f"--edgepack-plugin {name}: {error}") from error
        subjects["plugin", name] = (plugin, PLUGIN_CHECKS)
        for spec, checks in checks_of_specs(plugin):
            subjects["spec", spec.label] = (spec, checks)
        targets = [*targets, *info.targets]
    for name in dict.fromkeys(targets):
        target = TargetSubject(parent.kit, name)
        try:
            plugin = target.plugin
        except EdgepackError as error:
            raise pytest.UsageError(
                f"--edgepack-target {name}: {error.message}; {error.hint or ''}"
            ) from error
        subjects.setdefault(("plugin", plugin.name), (plugin, PLUGIN_CHECKS))
        subjects["target", name] = (target, TARGET_CHECKS)
    made = [item(parent, subject, check) for subject, checks in subjects.values() for check in checks]
    _mark_expected(made, expected_failures(session.config.getini(XFAIL)))
    return [*made]


def item(parent: Checks, subject: Subject, check: KitCheck) -> CheckItem:
    """One test, ``edgepack::SUBJECT::CHECK``."""
    made: CheckItem = CheckItem.from_parent(parent, name=f"{subject.label}::{check.name}")
    made.check, made.subject = check, subject
    return made


def expected_failures(lines: Sequence[str]) -> Mapping[str, str]:
    """``CHECK`` or ``SUBJECT/CHECK`` → the reason why it is known to fail. Each must have one."""
    found = {}
    for line in lines:
        name, _, reason = line.partition(":")
        if not reason.strip():
            raise pytest.UsageError(
                f"{XFAIL}: {line!r} has no reason; a line is `CHECK: why it fails, and when that ends`"
            )
        found[name.strip()] = reason.strip()
    return found


def _mark_expected(items: Sequence[CheckItem], expected: Mapping[str, str]) -> None:
    """Strictly: what is expected to fail and passes fails, so that no line outlives its reason."""
    used = set()
    for each in items:
        for name in (each.check.name, f"{each.subject.label}/{each.check.name}"):
            if name in expected:
                used.add(name)
                each.add_marker(pytest.mark.xfail(reason=expected[name], strict=True))
    if unknown := sorted(expected.keys() - used):
        names = ", ".join(dict.fromkeys(each.check.name for each in items))
        raise pytest.UsageError(f"{XFAIL}: there is no check {', '.join(unknown)}; checks: {names}")


def summary(reporter: pytest.TerminalReporter) -> Iterator[str]:
    """How many held, and each that did not or was not looked at."""
    counts = {}
    for outcome in ("passed", "failed", "error", "xfailed", "skipped"):
        reports = [each for each in reporter.stats.get(outcome, []) if _is_ours(each)]
        counts[outcome] = len({each.nodeid for each in reports})
    broken = counts["failed"] + counts["error"]
    said = [f"{counts['passed']} {_of(counts['passed'], 'check holds', 'checks hold')}"]
    said += [f"{broken} {_of(broken, 'does', 'do')} not"] if broken else []
    said += (
        [f"{counts['xfailed']} {_of(counts['xfailed'], 'is', 'are')} known not to"]
        if counts["xfailed"]
        else []
    )
    yield ", ".join(said)
    shown = (each for reports in reporter.stats.values() for each in reports if _is_ours(each))
    models = [
        value for each in shown for name, value in getattr(each, "user_properties", ()) if name == MODEL
    ]
    if models:
        yield f"checked: {', '.join(dict.fromkeys(models))}"
    if counts["skipped"]:
        yield f"NOT CHECKED: {counts['skipped']}, which is not passed (the reasons: -rs)"
    if left := [each for each in reporter.stats.get("deselected", []) if _is_ours(each)]:
        yield f"NOT CHECKED: {len(left)} {_of(len(left), 'was', 'were')} deselected"


def _of(count: int, one: str, several: str) -> str:
    return one if count == 1 else several


def _is_ours(report: Any) -> bool:
    return f"{PREFIX}::" in str(getattr(report, "nodeid", ""))
