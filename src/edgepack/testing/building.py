"""Checks of a build: what is refused before it begins, what it leaves, what its steps return, whose its failures are."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from edgepack.errors import DownloadError, EdgepackError, ModelError, PluginError, UnsupportedModelError
from edgepack.records.operators import Operator
from edgepack.testing.built import STEPS, build_here, build_in_own_process, build_watched
from edgepack.testing.check import Broken, NotSeen, check
from edgepack.testing.kit import TargetSubject

BUILDER = "docs/plugins.md#a-builder"
TARGETS = "docs/targets.md"


def _refuses(subject: TargetSubject, what: str, do: str, **changes: Any) -> None:
    """Whether ``make`` raises an error for people on a changed target, with an empty cache and no network."""
    store = subject.kit.folder / "nothing-fetched"
    target = replace(subject.target, **changes)
    builder = subject.kit.host.builder_of(target)
    try:
        builder.create(target, subject.kit.context(store=store))
    except PluginError as error:
        raise Broken(f"with {what}: {error.message}", do=do) from error
    except EdgepackError as error:
        if any(path.is_file() for path in store.rglob("*")):
            raise Broken(f"something was put into the cache before {what} was refused", do=do) from error
        return
    raise Broken(f"{what} was taken", do=do)


@check(
    "unknown-option",
    "An option that the builder does not know is refused, before anything is fetched.",
    section=BUILDER,
)
def unknown_option(subject: TargetSubject) -> None:
    options = {**subject.target.options, "no_such_option": "1"}
    _refuses(
        subject,
        "the option no_such_option",
        "let `make` call api.read_options(target, OPTIONS), first of all",
        options=options,
    )


@check(
    "unknown-platform",
    "A platform that the builder makes nothing for is refused, before anything is fetched.",
    section=BUILDER,
)
def unknown_platform(subject: TargetSubject) -> None:
    platform = replace(subject.target.platform, os="plan9", arch="vax", isa=())
    _refuses(
        subject,
        "a platform plan9 on vax",
        "let `make` call api.require_platform(target, os=…, architectures=…), or "
        "api.require_runtime(target.platform, context=context)",
        platform=platform,
    )


@check(
    "builds",
    "`edgepack bundle` makes a bundle of a small model, offline, and the host verifies it.",
    section=BUILDER,
)
def builds(subject: TargetSubject) -> None:
    built = build_in_own_process(subject)
    if built.failed:
        do = "mend what the host says"
        if built.exit_code in (ModelError.exit_code, UnsupportedModelError.exit_code):
            do = "mend it, or where the builder is right to refuse this model give one that it takes: --edgepack-model FOLDER"
        if built.exit_code == DownloadError.exit_code:
            do = f"`edgepack fetch --target {subject.name}` first, or --edgepack-fetch; what it lacks then, `fetch` of the Spec forgets"
        lines = [line for line in built.said.splitlines() if line.startswith(("error:", "hint:"))]
        raise Broken("\n       ".join(lines) or built.said[-500:], do=do)
    if "directory" not in built.report:
        raise Broken(
            f"standard output is no JSON: {str(built.report.get('stdout'))[:80]!r}", do="take the print out"
        )


@check(
    "is-verified",
    "The bundle ran here and its vectors are the model's.",
    section="docs/plugins.md#a-builder",
)
def is_verified(subject: TargetSubject) -> None:
    found = subject.built.report["verification"]
    if found["status"] != "passed":
        raise NotSeen(f"{found['status']}: {found['reason']}")


@check(
    "leaves-nothing-elsewhere",
    "A build writes into its work folder, the cache and the output, and nowhere else.",
    section=BUILDER,
)
def leaves_nothing_elsewhere(subject: TargetSubject) -> None:
    built = subject.built
    if built.strays:
        raise Broken(
            f"it left {', '.join(built.strays[:3])}", do="write below context.work_dir, or into context.store"
        )
    packages = {package["file"] for package in built.report.get("packages", [])}
    name = built.directory.name
    known = {name, *(name + end for end in (".tar.zst", ".report.json", ".provenance.json")), *packages}
    if others := sorted({path.name for path in built.output.iterdir()} - known):
        raise Broken(f"beside the bundle there is {', '.join(others[:3])}", do="write below context.work_dir")


@check("two-builds-alike", "The same target and model give the same bytes, in any process.", section=BUILDER)
def two_builds_alike(subject: TargetSubject) -> None:
    from edgepack.bundles.manifest import LICENSES, open_bundle
    from edgepack.bundles.sbom import SBOM

    first, second = subject.built.bundle, open_bundle(build_here(subject).directory)
    digests = [{file["path"]: file["sha256"] for file in each.manifest["files"]} for each in (first, second)]
    different = sorted(
        path for path in digests[0].keys() | digests[1].keys() if digests[0].get(path) != digests[1].get(path)
    )
    # The bill of materials has the digests of the others: what it differs in by that alone is no news.
    different = [path for path in different if path != f"{LICENSES}/{SBOM}"] or different
    if different:
        raise Broken(
            f"two builds differ in {', '.join(different[:3])}",
            do="leave times, random numbers, paths of the machine and the order of sets out of what ships",
        )
    if first.manifest != second.manifest:
        raise Broken(
            "two builds differ in manifest.json", do="leave times and paths of the machine out of the records"
        )


@check(
    "has-what-it-says",
    "A runtime does not say that it has operators that nobody made: asked for one that does not exist, it refuses, or "
    "`provides` lacks it.",
    section="docs/plugins.md#a-builder",
)
def has_what_it_says(subject: TargetSubject) -> None:
    seen = build_here(subject).records
    model, runtime = seen["prepare_model"], seen["provide_runtime"]
    if model.needs is None or runtime is None or runtime.provides is None:
        return
    bogus = Operator(domain="ai.onnx", name="NoSuchOperator", since=1)
    asked = replace(model, needs=replace(model.needs, kernels=model.needs.kernels | {bogus}))
    builder = subject.kit.host.create(subject.target, subject.kit.context())
    try:
        made = builder.provide_runtime(asked)
        if made is not None and made.library is None:
            builder.make_runner(asked, made)  # which links it
    except EdgepackError:
        return
    if made is not None and made.provides is not None and bogus in made.provides.kernels:
        raise Broken(
            f"asked for {bogus.name}, provide_runtime says that it has it",
            do="fill `provides` from what is in the library, not from what was asked for",
        )


@check(
    "failures-are-blamed",
    "What a step of the builder raises is said with the plugin's name and the step's.",
    section="docs/plugins.md#what-the-host-does-about-a-plugin-that-is-wrong",
)
def failures_are_blamed(subject: TargetSubject) -> None:
    _ = subject.built
    plugin = subject.plugin.name
    for step in ("make", *STEPS):

        def failing(name: str, method: Callable[..., Any], step: str = step) -> Callable[..., Any]:
            def call(*arguments: Any) -> Any:
                if name == step:
                    raise RuntimeError("raised by the kit")
                return method(*arguments)

            return call

        try:
            build_watched(subject, failing, subject.kit.folder / f"blamed-{step}")
        except PluginError as error:
            if not error.message.startswith(f"plugin {plugin} failed in {step}:"):
                raise Broken(
                    f"{step} raised, and what was said is {error.message!r}", do=SWALLOWED
                ) from error
        except Exception as error:
            raise Broken(f"{step} raised, and what was said is {str(error)!r}", do=SWALLOWED) from error
        else:
            raise Broken(f"{step} raised, and the build went on", do=SWALLOWED)


SWALLOWED = "let errors through: raise an EdgepackError for people, and catch nothing that you do not know"

CHECKS = (
    unknown_option,
    unknown_platform,
    builds,
    is_verified,
    leaves_nothing_elsewhere,
    two_builds_alike,
    has_what_it_says,
    failures_are_blamed,
)
