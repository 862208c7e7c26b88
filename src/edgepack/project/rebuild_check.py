"""A bundle made a second time, in other surroundings, and compared byte for byte with the first.

Another process, folder, home, locale, time zone, umask, order of sets and an empty cache, but for what is fetched or takes
long to compile: that is reused, and said to be.
"""

import os
import pickle
import site
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgepack.bundles.archive import archive_of
from edgepack.bundles.differences import first_difference
from edgepack.errors import ReproducibilityError
from edgepack.files.store import LOCKS
from edgepack.pipeline import Outcome, build
from edgepack.plugins.context import HostContext, host_context
from edgepack.recipes.prepare import corpora_of
from edgepack.records.target import Target

FETCHED = (
    *(
        "addresses",
        "downloads",
        "emscripten",
        "emulator",
        "hub",
        "models",
        "npm",
        "protoc",
    ),
    *("source-tree", "sources", "wheels", "wordnet"),
)
COMPILED = ("kernel-archive", "standalone-objects", "tensorrt-engine")
"""Objects, one by one: a minute to an hour. Linking is done again."""
JUDGES = ("prover", "reference")
"""What decides whether a bundle is right, and not what is in it."""
_UMASK = 0o077


@dataclass(frozen=True, kw_only=True)
class Rebuild:
    """Order for the second process that builds a bundle again: all that it needs to know."""

    target: Target
    model: str | None
    output: Path
    offline: bool


def require_reproducible(outcome: Outcome, *, model: str | None, context: HostContext) -> None:
    """Build it again; raises ``ReproducibilityError`` with the first difference, or ``ToolError`` where that build fails.

    Both have the same pinned inputs; the first one stays where it is.
    """
    with context.story.step("again"), tempfile.TemporaryDirectory(prefix="edgepack-again-") as folder:
        root = Path(folder).resolve()
        _lay_store(root / "another cache", context.store.root)
        order = Rebuild(
            target=_absolute(outcome.target),
            model=str(Path(model).absolute()) if model and Path(model).exists() else model,
            output=root / "another output",
            offline=context.offline,
        )
        _build_elsewhere(order, root, context)
        again = order.output / outcome.bundle.directory.name
        _compare(outcome, again)
        context.note(f"the same bytes; taken from the cache: downloads, {COMPILED[0]}")


def _compare(outcome: Outcome, again: Path) -> None:
    first = outcome.bundle.directory
    names = [package.file for package in outcome.report.packages]
    pairs = [(first, again), (archive_of(first), archive_of(again))]
    pairs += [(first.with_name(name), again.with_name(name)) for name in names]
    for one, other in pairs:
        if difference := first_difference(one, other):
            raise ReproducibilityError(
                f"{first.name}: the second build differs: {difference}",
                hint="times, random numbers, names of folders and the order of sets must stay out of what ships",
            )


def _lay_store(root: Path, store: Path) -> None:
    """An empty cache that has the slow parts of another."""
    root.mkdir()
    for kind in (LOCKS, *FETCHED, *COMPILED, *JUDGES):
        if (store / kind).is_dir():
            (root / kind).symlink_to(store / kind)


def _build_elsewhere(order: Rebuild, root: Path, context: HostContext) -> None:
    for name in ("another home", "another folder", "another work folder"):
        (root / name).mkdir()
    file = root / "order"
    file.write_bytes(pickle.dumps(order))
    surroundings = {
        "EDGEPACK_CACHE": str(root / "another cache"),
        "HOME": str(root / "another home"),
        "XDG_CACHE_HOME": "",
        # Plugins that the user installed for themselves are found by their home folder.
        "PYTHONUSERBASE": site.getuserbase(),
        "PYTHONHASHSEED": "4711",
        "TMPDIR": str(root / "another work folder"),
        "LC_ALL": "C",
        "TZ": "Asia/Kathmandu",
    }
    command: list[str | Path] = [sys.executable, "-P", "-m", "edgepack.project.rebuild_check", file]
    context.run(command, cwd=_folder(order.target, root / "another folder"), env=surroundings)


def _folder(target: Target, elsewhere: Path) -> Path:
    """Elsewhere; this folder where a pass reads a file by a relative path, which is part of the recipe that the manifest states."""
    recipes = (target.model.recipe, target.model.score_recipe)
    steps = [step for recipe in recipes if isinstance(recipe, tuple) for step in recipe]
    relative = any(not Path(corpus).is_absolute() for corpus in corpora_of(tuple(steps)))
    return Path.cwd() if relative else elsewhere


def _absolute(target: Target) -> Target:
    """With paths that hold in another folder, too."""
    calibration = target.model.calibration
    model = replace(target.model, calibration=calibration and calibration.absolute())
    module = target.module and target.module.absolute()
    return replace(target, model=model, module=module, options=_absolute_values(target.options))


def _absolute_values(options: Mapping[str, Any]) -> dict[str, Any]:
    """A word that names a file or folder here names the same one there; anything else is as it is."""
    return {
        key: str(Path(value).absolute())
        if isinstance(value, str) and ("/" in value or "." in value) and Path(value).exists()
        else value
        for key, value in options.items()
    }


def main(file: str) -> None:
    """The second process."""
    os.umask(_UMASK)
    order: Rebuild = pickle.loads(Path(file).read_bytes())
    with host_context(offline=order.offline) as context:
        build(order.target, model=order.model, output=order.output, context=context)


if __name__ == "__main__":
    main(sys.argv[1])
