"""Whether model and runtime fit, before a bundle is made of them: edgepack's own check, and those of plugins."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from edgepack.context import BuildContext, Extension
from edgepack.errors import MismatchError, PluginError, VerificationError
from edgepack.operators.fit import OPERATORS
from edgepack.plugins.blame import blamed_on, listed
from edgepack.plugins.enabled import VARIABLE
from edgepack.records.bundle import Bundle
from edgepack.records.model import PreparedModel
from edgepack.records.runtime import RuntimeArtifact
from edgepack.records.target import Target

AXIS = "checks"
SENTENCES = "sentences or None"


class Check(Protocol):
    """Whether a model and a runtime fit each other, and the target."""

    def __call__(
        self, model: PreparedModel, runtime: RuntimeArtifact | None, target: Target, /
    ) -> Iterable[str] | None:
        """Faults, a sentence each: any refuses the build. ``None``: the check does not apply, and is not listed."""


class BundleCheck(Protocol):
    """Part that a check may have beside itself: whether a finished bundle, perhaps a stranger's, is sound. `edgepack verify` asks."""

    def bundle(self, bundle: Bundle, /) -> Iterable[str] | None:
        """Faults of a finished bundle, a sentence each: any refuses the bundle. ``None``: the check does not apply.
        May raise ``ValueError``, ``OSError`` or ``RecursionError`` for files that are not what they should be.
        """


Form = Mapping[str, bytes]
"""Files that stand in the place of a bundle's own, by their paths in it."""


class FormCheck(Protocol):
    """Another such part: the forms of a bundle that other devices than this host take. `edgepack verify --run` runs each, and compares vectors."""

    def forms(self, bundle: Bundle, /) -> Mapping[str, Form]:
        """By names in words; of a bundle that is sound."""


def forms_of(bundle: Bundle, *, context: BuildContext) -> dict[str, Form]:
    """All that checks know. Raises ``PluginError`` for a check that fails."""
    forms: dict[str, Form] = {}
    for name, found in context.extensions(AXIS).items():
        if (look := getattr(found.make(), "forms", None)) is not None:
            with blamed_on(found.plugin, f"check {name}"):
                forms |= look(bundle)
    return forms


def require_sound(bundle: Bundle, *, context: BuildContext) -> None:
    """Let every check that looks at bundles look at this one. Raises ``VerificationError`` for what one finds, ``PluginError`` for one that
    fails."""
    for name, found in context.extensions(AXIS).items():
        look = getattr(found.make(), "bundle", None)
        if look is None:
            continue
        with blamed_on(found.plugin, f"check {name}"):
            try:
                answer = look(bundle)
            except (ValueError, OSError, RecursionError) as error:
                answer = [str(error)]
        if findings := [] if answer is None else listed(found.plugin, f"check {name}", answer, SENTENCES):
            raise VerificationError(
                f"{bundle.name} is not sound (check {name} of {found.plugin}): {'; '.join(map(str, findings))}",
                hint="build it again",
            )


def require_fit(
    model: PreparedModel, runtime: RuntimeArtifact | None, target: Target, *, context: BuildContext
) -> tuple[str, ...]:
    """The names of the checks that passed. Raises ``MismatchError`` for what one finds, ``PluginError`` for one that fails."""
    passed = []
    for name, found in context.extensions(AXIS).items():
        check: Check = found.make()
        with blamed_on(found.plugin, f"check {name}"):
            answer = check(model, runtime, target)
        if answer is None:
            continue
        findings = listed(found.plugin, f"check {name}", answer, SENTENCES)
        if not all(isinstance(each, str) for each in findings):
            raise PluginError(
                f"plugin {found.plugin}: check {name} returned {repr(findings)[:80]}, expected a list of {SENTENCES}"
            )
        if findings:
            raise MismatchError(
                f"model and runtime do not fit (check {name} of {found.plugin}): {'; '.join(findings)}",
                hint=_hint(found, target),
            )
        passed.append(name)
    return tuple(passed)


def _hint(check: Extension, target: Target) -> str:
    """Hint for a check that refuses: a plugin's may refuse anything, such as a target's size."""
    if check.name == OPERATORS:
        return f"builder {target.builder} made both; its runtime has to be made for the model as it ships"
    return f"check {check.name} of plugin {check.plugin} refuses it; {VARIABLE}={check.plugin} builds without that plugin"
