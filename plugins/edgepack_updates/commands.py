"""``edgepack diff``, ``edgepack delta`` and ``edgepack apply``."""

from pathlib import Path

import click

from edgepack.api.kit import common_options, print_json, say
from edgepack.cli.options import file_option

_path = click.Path(path_type=Path)
_run = click.option(
    "--run",
    is_flag=True,
    help="Run the programs even of bundles that were not made on this machine. They run with your permissions, in a "
    "sandbox if one is available.",
)


@click.command(epilog="\b\nExample:\n  edgepack diff old.tar.zst dist/all-MiniLM-L6-v2-linux-x86-min")
@click.argument("old", type=_path)
@click.argument("new", type=_path)
@_run
@click.option(
    "--full", is_flag=True, help="Also measure retrieval: 500 words among 2,000 glosses of WordNet."
)
@file_option("--prices", "Price table (TOML) for download costs.", exists=True)
@file_option(
    "--key",
    "Require that bundles that were not made on this machine are signed with this public key.",
    exists=True,
)
@common_options
def diff(
    old: Path, new: Path, run: bool, full: bool, prices: Path | None, key: Path | None, as_json: bool
) -> None:
    """Compare two bundles and say whether an index can stay.

    It shows the bytes of each part, the costs of an update, and how far vectors drift. OLD and NEW are folders or archives of
    bundles, of any model, recipe, runtime or target. Their programs embed the built-in texts;
    those of bundles made elsewhere are run only with --run. What such a bundle says of itself decides nothing without --key.
    """
    from edgepack.api.kit import host_context, load_public
    from edgepack.cli.output import print_rich
    from edgepack_updates import show
    from edgepack_updates.difference import difference, opened

    with host_context() as context:
        before, after = opened(old, "old", context=context), opened(new, "new", context=context)
        public = None if key is None else load_public(key)
        found = difference(before, after, run=run, full=full, prices=prices, key=public, context=context)
    if as_json:
        print_json(show.as_json(found))
    else:
        print_rich(show.render(found))


@click.command(
    epilog="\b\nExample:\n  edgepack delta dist-1/my-model-linux-x86-min dist-2/my-model-linux-x86-min -o 1-to-2.delta"
)
@click.argument("old", type=_path)
@click.argument("new", type=_path)
@click.option("-o", "--output", type=_path, required=True, metavar="FILE", help="File to write.")
@click.option("-f", "--force", is_flag=True, help="Replace an existing file.")
@common_options
def delta(old: Path, new: Path, output: Path, force: bool, as_json: bool) -> None:
    """Write a delta: the update from bundle OLD to bundle NEW.

    `edgepack apply` makes NEW of OLD with it; so does a short shell script with tar and zstd.
    """
    from edgepack.api.kit import host_context
    from edgepack.errors import OutputError
    from edgepack.files.folder import require_outside
    from edgepack_updates.difference import opened
    from edgepack_updates.making import make_delta, write_delta

    if output.is_dir() or (output.exists() and not force):
        raise OutputError(f"{output} already exists", hint="--force replaces a file; choose another name")
    for each in (old, new):
        require_outside(output, each)
    with host_context() as context:
        before, after = opened(old, "old", context=context), opened(new, "new", context=context)
        made = make_delta(before, after, context.work_dir / "delta", context=context)
        write_delta(made, output)
    how = [step.how for step in made.plan.steps]
    if as_json:
        counts = {name: how.count(name) for name in ("keep", "patch", "whole", "link")}
        print_json(
            {
                "file": str(output),
                "bytes": output.stat().st_size,
                "old": made.plan.old,
                "new": made.plan.new,
                "files": counts,
            }
        )
    else:
        say(
            f"{output}: {output.stat().st_size:,} bytes; {how.count('keep')} files kept, {how.count('patch')} patched, {how.count('whole')} whole"
        )


@click.command(
    epilog="\b\nExample:\n  edgepack apply 1-to-2.delta dist/my-model-linux-x86-min --key team.pub"
)
@click.argument("delta", type=_path)
@click.argument("path", metavar="BUNDLE", type=_path)
@click.option(
    "-o",
    "--output",
    type=_path,
    metavar="DIR",
    help="Make the new bundle as this folder, and leave BUNDLE.  [default: replace BUNDLE in one step]",
)
@file_option(
    "--key",
    "Require that the new bundle is signed with this key; the file holds the public key.",
    exists=True,
)
@click.option(
    "--name",
    metavar="NAME",
    help="Require that the new bundle is called NAME.  [default: as BUNDLE is]",
)
@click.option(
    "--min-version",
    metavar="VERSION",
    help="Reject a new bundle that is older, e.g. 1.2.0.  [default: BUNDLE's version, if it has one]",
)
@common_options
def apply(
    delta: Path,
    path: Path,
    output: Path | None,
    key: Path | None,
    name: str | None,
    min_version: str | None,
    as_json: bool,
) -> None:
    """Update BUNDLE with a delta.

    Every file is checked before and after. BUNDLE is the old one until the new one is complete; a run that is killed is continued
    by the next one. Without --key, anyone can have written the new bundle's name and version.
    """
    from edgepack.api import UsageError
    from edgepack.api.kit import host_context, load_public, require_numbers
    from edgepack.bundles.manifest import digest
    from edgepack_updates.applying import Wanted, apply_delta, version_of
    from edgepack_updates.difference import opened

    wanted = Wanted(
        key=None if key is None else load_public(key),
        name=name,
        least_version=None if min_version is None else require_numbers(min_version),
    )
    if delta.is_dir():
        raise UsageError(f"{delta} is a folder, and no delta", hint="the delta comes first, then the bundle")
    if output is None and path.is_file():
        raise UsageError(
            f"{path} is an archive, and a folder is updated", hint="--output names the folder to make"
        )
    with host_context() as context:
        found = apply_delta(
            delta,
            opened(path, "old", context=context),
            output=output,
            wanted=wanted,
            waiting=context.warn,
        )
    came = found.bundle
    if as_json:
        print_json(
            {
                "directory": str(came.directory),
                "name": came.name,
                "version": version_of(came),
                "digest": digest(came),
                "already": found.already,
            }
        )
    else:
        what = f"{came.name}, {f'version {said}' if (said := version_of(came)) else 'no version'}"
        say(f"{came.directory}: {'was the new bundle already' if found.already else 'updated'}: {what}")
